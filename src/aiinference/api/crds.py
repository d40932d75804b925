"""The CustomResourceDefinitions of InferenceServiceClass and InferenceService, made from their Structs.

What belongs here: columns, and rules that look at more than one field. What does not: the schema's
translation (``kubekit.crd``), the files (``tools/generate_crds.py``), and the rule that needs the object's
namespace, which is a ValidatingAdmissionPolicy of the chart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiinference.api.classes import (
    InferenceServiceClass,
    InferenceServiceClassSpec,
    InferenceServiceClassStatus,
)
from aiinference.api.fields import GROUP, VERSION
from aiinference.api.orders import (
    ORDER_NAME_LIMIT,
    InferenceService,
    InferenceServiceSpec,
    InferenceServiceStatus,
)
from kubekit.crd import Column, Extras, Names, Rule, crd_manifest

if TYPE_CHECKING:
    import msgspec

    from kubekit.resources import Resource

LABELS = {"heritage": "deckhouse", "module": "ai-inference"}
#: orders outlive the chart: uninstalling it must not delete what users made
ANNOTATIONS = {"helm.sh/resource-policy": "keep"}


def crds() -> list[dict[str, Any]]:
    """Return the definitions of all kinds of this product."""
    return [
        _crd(
            InferenceServiceClass,
            {"spec": InferenceServiceClassSpec, "status": InferenceServiceClassStatus},
            "infsc",
            description="What an administrator allows and decides for orders of inference.",
            columns=_CLASS_COLUMNS,
            rules=_CLASS_RULES,
        ),
        _crd(
            InferenceService,
            {"spec": InferenceServiceSpec, "status": InferenceServiceStatus},
            "infs",
            description="An order: a model, served by an inference API under a class.",
            columns=_ORDER_COLUMNS,
            rules=_ORDER_RULES,
        ),
    ]


def _crd(
    kind: type[Resource],
    parts: dict[str, type[msgspec.Struct]],
    short: str,
    *,
    description: str,
    columns: tuple[Column, ...],
    rules: tuple[Rule, ...],
) -> dict[str, Any]:
    names = Names(
        group=GROUP,
        kind=kind.KIND.name,
        plural=kind.KIND.plural,
        singular=kind.KIND.name.lower(),
        scope="Namespaced" if kind.KIND.namespaced else "Cluster",
        categories=("ai-inference",),
        short=(short,),
    )
    extras = Extras(labels=LABELS, annotations=ANNOTATIONS)
    return crd_manifest(
        parts, names, VERSION, description=description, columns=columns, rules=rules, extras=extras
    )


_CLASS_COLUMNS = (
    Column("Phase", ".status.phase"),
    Column("Endpoints", ".spec.modelPolicy.allowedEndpointTypes"),
    Column("Exposure", ".spec.exposurePolicy.type"),
    Column("Age", ".metadata.creationTimestamp", "date"),
)
_ORDER_COLUMNS = (
    Column("Phase", ".status.phase"),
    Column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
    Column("Device", ".status.resolved.deviceClass"),
    Column("Share", ".status.share"),
    Column("Endpoint", ".status.endpoint.url"),
    Column("Age", ".metadata.creationTimestamp", "date"),
)


def _certificate(field: str, mode: str, wanted: str) -> tuple[Rule, Rule]:
    """Hold a branch of ``https`` to its mode: there with it, and only with it."""
    https = "self.spec.exposurePolicy.https"
    given = "!has(self.spec.exposurePolicy) || !has(self.spec.exposurePolicy.https)"
    return (
        Rule(
            f"{given} || {https}.mode != '{mode}' || has({https}.{field})",
            f"mode {mode} needs {wanted}; name it in {field}",
            f".spec.exposurePolicy.https.{field}",
        ),
        Rule(
            f"{given} || {https}.mode == '{mode}' || !has({https}.{field})",
            f"{field} belongs to mode {mode} and would be ignored; remove it, or set mode: {mode}",
            f".spec.exposurePolicy.https.{field}",
        ),
    )


def _bounds(policy: str, least: str, most: str) -> Rule:
    """Hold two bounds to their order."""
    at = f"self.spec.{policy}"
    return Rule(
        f"!has({at}) || !has({at}.{least}) || !has({at}.{most}) || {at}.{least} <= {at}.{most}",
        f"{least} is above {most}, so nothing could satisfy both; lower {least} or raise {most}",
        f".spec.{policy}.{least}",
    )


_CLASS_RULES = (
    Rule(
        "has(self.spec.modelPolicy) && has(self.spec.modelPolicy.allowedEndpointTypes)"
        " && self.spec.modelPolicy.allowedEndpointTypes.size() > 0",
        "without endpoint types an order of this class would get no inference API, for it names none itself;"
        " list Chat, Embeddings or Rerank in spec.modelPolicy.allowedEndpointTypes, the preferred one first",
        ".spec.modelPolicy.allowedEndpointTypes",
    ),
    Rule(
        "!has(self.spec.exposurePolicy) || self.spec.exposurePolicy.type != 'ClusterLocal'"
        " || !has(self.spec.exposurePolicy.https)",
        "a ClusterLocal API has no address outside the cluster and so no certificate; remove https, or set"
        " type: External",
        ".spec.exposurePolicy.https",
    ),
    *_certificate("certManager", "CertManager", "a ClusterIssuer"),
    *_certificate("customCertificate", "CustomCertificate", "the Secret with the certificate"),
    _bounds("acceleratorPolicy", "minSharePercent", "maxSharePercent"),
    _bounds("scalingPolicy", "minReplicas", "maxReplicas"),
)

_OBJECT_NAME = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_REPOSITORY = "^[A-Za-z0-9][-._A-Za-z0-9]{0,95}(/[A-Za-z0-9][-._A-Za-z0-9]{0,95})?$"
_ORDER_RULES = (
    Rule(
        f"self.metadata.name.size() <= {ORDER_NAME_LIMIT}",
        "the name is too long: the order's Pods carry it in a label, with a suffix; choose a name of at most"
        f" {ORDER_NAME_LIMIT} characters",
        ".metadata.name",
    ),
    Rule(
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && !self.metadata.name.contains('--')",
        "the order's Service and host get this name, which cannot be one of theirs; use lower-case letters,"
        " digits and single dashes, with a letter first and no dash last",
        ".metadata.name",
    ),
    Rule(
        "self.spec.model.src != 'HuggingFace' || !has(self.spec.model.ref.__namespace__)",
        "a Hugging Face repository belongs to no namespace; remove ref.namespace",
        ".spec.model.ref.namespace",
    ),
    Rule(
        "self.spec.model.src != 'HuggingFace' || !has(self.spec.model.ref.kind)",
        "a Hugging Face repository is no object of the catalogue; remove ref.kind, or set src: ai-models",
        ".spec.model.ref.kind",
    ),
    Rule(
        "self.spec.model.src != 'ai-models' || has(self.spec.model.ref.kind)",
        "the catalogue has models of a namespace and of the cluster; set ref.kind to Model or ClusterModel",
        ".spec.model.ref.kind",
    ),
    Rule(
        "!has(self.spec.model.ref.kind) || self.spec.model.ref.kind != 'ClusterModel'"
        " || !has(self.spec.model.ref.__namespace__)",
        "a ClusterModel belongs to no namespace; remove ref.namespace, or set ref.kind: Model",
        ".spec.model.ref.namespace",
    ),
    Rule(
        f"self.spec.model.src != 'ai-models' || self.spec.model.ref.name.matches('{_OBJECT_NAME}')",
        "the catalogue has no objects of such a name; give the name of a Model or ClusterModel, or set src:"
        " HuggingFace for the id of a repository",
        ".spec.model.ref.name",
    ),
    Rule(
        f"self.spec.model.src != 'HuggingFace' || self.spec.model.ref.name.matches('{_REPOSITORY}')",
        "this is no id of a repository; write it as owner/name, as the hub shows it",
        ".spec.model.ref.name",
    ),
    Rule(
        "!has(self.spec.model.authSecretRef) || self.spec.model.src == 'HuggingFace'",
        "the Secret holds a token for Hugging Face, and a model of the catalogue is not fetched from there;"
        " remove authSecretRef, or set src: HuggingFace",
        ".spec.model.authSecretRef",
    ),
)
