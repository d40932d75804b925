"""Which object of the catalogue an order names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiinference.api.reasons import ModelKind, OrderReason
from aiinference.models.outcomes import Refusal

if TYPE_CHECKING:
    from aiinference.api.orders import InferenceService


@dataclass(frozen=True, slots=True)
class Reference:
    """A Model of a namespace, or a ClusterModel, whose namespace is None."""

    kind: ModelKind
    namespace: str | None
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {place}{self.name}"


def of(order: InferenceService) -> Reference | Refusal:
    """Return what the order names; a Model is looked for in the order's own namespace only.

    The API server refuses another namespace when the order is written. Here it is refused again, since the
    question is asked with this module's rights and not with the author's.
    """
    named = order.spec.model.ref
    own = order.metadata.namespace
    if named.kind == ModelKind.CLUSTER_MODEL:
        return Reference(ModelKind.CLUSTER_MODEL, None, named.name)
    if named.namespace not in {None, own}:
        return Refusal(
            OrderReason.MODEL_NOT_FOUND,
            f"Model {named.namespace}/{named.name} is of another namespace, and an order can only have "
            f"Models of its own. Name a Model of {own}, or a ClusterModel.",
        )
    return Reference(ModelKind.MODEL, own, named.name)
