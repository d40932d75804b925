"""The answer about one model, from its status.

What belongs here: what is told. What does not: to whom (``desk``). Everything comes from the object that this
process follows anyway, geometry included: neither the registry nor the API server is asked.
"""

from __future__ import annotations

import msgspec

from aimodels.api.model import AnyModel, ModelGeometry, ModelStatus, ResolvedStatus
from aimodels.api.reasons import ConditionType, Phase
from kubekit.conditions import find

#: a condition's message may be longer; whoever passes it on has limits of his own
_MESSAGE_LIMIT = 1024

CLUSTER, NAMESPACED = "Cluster", "Namespaced"


class LookupAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is known of a model that is ready; what is unknown is absent."""

    ready: bool
    #: of the model's condition Ready
    reason: str
    #: ``Cluster`` or ``Namespaced``
    scope: str
    name: str
    namespace: str | None = None
    digest: str
    size_bytes: int
    format: str | None = None
    family: str | None = None
    architecture: str | None = None
    parameter_count: int | None = None
    active_parameter_count: int | None = None
    quantization: str | None = None
    context_window_tokens: int | None = None
    supported_endpoint_types: tuple[str, ...] = ()
    supported_features: tuple[str, ...] = ()
    facts: ModelGeometry | None = None


#: the facts that stand in the answer as they stand in the status
_FACTS = tuple(
    name
    for name in ResolvedStatus.__struct_fields__
    if name in LookupAnswer.__struct_fields__ and name != "facts"
)


class NotReady(Exception):
    """The model cannot be used yet, or any more; the text says why in the words of its status."""

    def __init__(self, phase: str, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.phase = phase
        self.reason = reason
        self.message = message[:_MESSAGE_LIMIT]


def answer(model: AnyModel) -> LookupAnswer:
    """Return what is told about a model; ``NotReady`` when it cannot be used."""
    status = model.status or ModelStatus()
    ready = find(status.conditions, ConditionType.READY)
    if model.metadata.deleting:
        raise NotReady(Phase.DELETING, Phase.DELETING, "The model is being deleted.")
    if ready is None:
        raise NotReady(Phase.PENDING, Phase.PENDING, "The catalogue has not looked at the model yet.")
    if ready.status != "True" or status.artifact is None or status.resolved is None:
        raise NotReady(status.phase or Phase.PENDING, ready.reason, ready.message)
    facts = status.resolved.facts
    return LookupAnswer(
        ready=True,
        reason=ready.reason,
        scope=NAMESPACED if model.metadata.namespace else CLUSTER,
        name=model.metadata.name,
        namespace=model.metadata.namespace or None,
        digest=status.artifact.digest,
        size_bytes=status.artifact.size_bytes,
        facts=None if facts == ModelGeometry() else facts,
        **{name: getattr(status.resolved, name) for name in _FACTS},
    )
