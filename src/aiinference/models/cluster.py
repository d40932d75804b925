"""The catalogue by way of the Kubernetes API: the model's own object.

What belongs here: our partial view of that object, and the facts in it. What does not: when this way is
taken. It has to tell what the lookup would; a contract test holds the two together.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from aiinference.api.fields import API_VERSION
from aiinference.api.reasons import ModelKind, ModelScope
from aiinference.models import said
from aiinference.models.facts import ModelFacts
from aiinference.models.outcomes import Refusal, Unavailable
from aiinference.models.reference import Reference
from kubekit.client import Client
from kubekit.errors import KubeError, NotFound
from kubekit.resources.meta import Resource, resource
from modelkit.facts import Geometry

_READY = "Ready"
_DELETING = ("Deleting", "The model is being deleted.")
_UNSEEN = ("Pending", "The catalogue has not looked at the model yet.")


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all parts."""


class _Condition(_Part, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _Artifact(_Part, frozen=True, kw_only=True):
    digest: str
    size_bytes: Annotated[int, Meta(ge=1)]


class _Resolved(_Part, frozen=True, kw_only=True):
    format: str | None = None
    family: str | None = None
    architecture: str | None = None
    parameter_count: int | None = None
    active_parameter_count: int | None = None
    quantization: str | None = None
    context_window_tokens: int | None = None
    supported_endpoint_types: tuple[str, ...] = ()
    supported_features: tuple[str, ...] = ()
    facts: Geometry | None = None


class _Status(_Part, frozen=True, kw_only=True):
    artifact: _Artifact | None = None
    resolved: _Resolved | None = None
    conditions: tuple[_Condition, ...] = ()


class AnyModelView(Resource, frozen=True, kw_only=True):
    """What we read of a model's object."""

    status: _Status | None = None


@resource(API_VERSION, "Model", "models")
class ModelView(AnyModelView, frozen=True, kw_only=True):
    """A model of one namespace."""


@resource(API_VERSION, "ClusterModel", "clustermodels", namespaced=False)
class ClusterModelView(AnyModelView, frozen=True, kw_only=True):
    """A model for every namespace."""


_VIEWS: dict[ModelKind, type[AnyModelView]] = {
    ModelKind.MODEL: ModelView,
    ModelKind.CLUSTER_MODEL: ClusterModelView,
}


class Kubernetes:
    """Reads the object anew each time: this way is rare, or chosen for being the plainest."""

    name = "Kubernetes"

    def __init__(self, client: Client) -> None:
        self._client = client

    async def facts(self, reference: Reference) -> ModelFacts | Refusal:
        """Return the facts in the object's status, or what it says instead."""
        try:
            found = await self._client.get(_VIEWS[reference.kind], reference.name, reference.namespace)
        except NotFound:
            return said.not_found(reference)
        except KubeError as error:
            raise Unavailable(str(error)[: said.LIMIT]) from error
        return facts(reference, found)


def facts(reference: Reference, model: AnyModelView) -> ModelFacts | Refusal:
    """Return the facts in a model's status, or why it cannot be used."""
    status = model.status or _Status()
    ready = next((one for one in status.conditions if one.type == _READY), None)
    if model.metadata.deleting:
        return said.not_ready(reference, *_DELETING)
    if ready is None:
        return said.not_ready(reference, *_UNSEEN)
    if ready.status != "True" or status.artifact is None or status.resolved is None:
        return said.not_ready(reference, ready.reason, ready.message)
    resolved = msgspec.structs.asdict(status.resolved)
    if resolved["facts"] == Geometry():
        resolved["facts"] = None
    return ModelFacts(
        ready=True,
        reason=ready.reason,
        scope=ModelScope.NAMESPACED if reference.namespace else ModelScope.CLUSTER,
        name=reference.name,
        namespace=reference.namespace,
        digest=status.artifact.digest,
        size_bytes=status.artifact.size_bytes,
        **resolved,
    )
