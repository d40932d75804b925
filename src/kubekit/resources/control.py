"""Kinds of the control plane: RBAC, leases, webhook configurations, CRDs."""

from datetime import datetime
from typing import Any

import msgspec

from kubekit.resources.meta import Resource, custom, resource


class PolicyRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a Role allows."""

    api_groups: list[str] = []
    resources: list[str] = []
    resource_names: list[str] = []
    verbs: list[str] = []


@resource("rbac.authorization.k8s.io/v1", "Role", "roles")
class Role(Resource, frozen=True, kw_only=True):
    """A Role of a namespace."""

    #: the API server keeps an empty list as null
    rules: list[PolicyRule] | None = None


class LeaseSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Who leads, and since when."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


@resource("coordination.k8s.io/v1", "Lease", "leases")
class Lease(Resource, frozen=True, kw_only=True):
    """The record by which replicas choose a leader (``kubekit.lease`` holds it)."""

    spec: LeaseSpec = LeaseSpec()


@resource(
    "admissionregistration.k8s.io/v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    namespaced=False,
)
class MutatingWebhookConfiguration(Resource, frozen=True, kw_only=True):
    """Which writes the API server asks us about; its webhooks are compared and patched, not interpreted."""

    webhooks: list[dict[str, Any]] = msgspec.field(default_factory=list)


ROLE_BINDING = custom("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE = custom("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
CUSTOM_RESOURCE_DEFINITION = custom(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)
TOKEN_REVIEW = custom("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
SUBJECT_ACCESS_REVIEW = custom(
    "authorization.k8s.io",
    "v1",
    "SubjectAccessReview",
    "subjectaccessreviews",
    namespaced=False,
)
