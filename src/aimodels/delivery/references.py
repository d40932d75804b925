"""Which models a workload names: its annotations, read and checked.

What belongs here: the form. What does not: whether the models exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aimodels.api.reasons import DeliveryBlockedReason
from aimodels.delivery.names import (
    CLUSTER_MODEL,
    CLUSTER_MODEL_ANNOTATION,
    MODEL,
    MODEL_ANNOTATION,
    Reference,
)
from modelkit.names import BadName, model_name

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_MODELS = 32


class InvalidReference(Exception):
    """The annotations cannot be followed; the text says what to write instead."""

    def __init__(self, reason: DeliveryBlockedReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def named(annotations: Mapping[str, str]) -> bool:
    """Tell whether a workload names any model, well or badly."""
    return MODEL_ANNOTATION in annotations or CLUSTER_MODEL_ANNOTATION in annotations


def parse(annotations: Mapping[str, str]) -> tuple[Reference, ...]:
    """Return the models in the order in which they are written, Models first."""
    references = [
        Reference(kind, _checked(kind, annotation, name))
        for kind, annotation in ((MODEL, MODEL_ANNOTATION), (CLUSTER_MODEL, CLUSTER_MODEL_ANNOTATION))
        for name in _names(annotations.get(annotation, ""))
    ]
    if len(references) > MOST_MODELS:
        raise InvalidReference(
            DeliveryBlockedReason.INVALID_SPEC,
            f"The workload names {len(references)} models; at most {MOST_MODELS} can be mounted at once.",
        )
    seen: set[str] = set()
    for reference in references:
        if reference.name in seen:
            raise InvalidReference(
                DeliveryBlockedReason.DUPLICATE_MODEL_NAME,
                f"The name {reference.name} is used twice, and both would be mounted at the same path. "
                f"Names must be unique over {MODEL_ANNOTATION} and {CLUSTER_MODEL_ANNOTATION}.",
            )
        seen.add(reference.name)
    return tuple(references)


def readable(annotations: Mapping[str, str]) -> tuple[Reference, ...]:
    """Return the models of annotations that can be followed, and none of those that cannot."""
    try:
        return parse(annotations)
    except InvalidReference:
        return ()


def _names(value: str) -> list[str]:
    return [name for item in value.split(",") if (name := item.strip())]


def _checked(kind: str, annotation: str, name: str) -> str:
    try:
        return model_name(name)
    except BadName as error:
        raise InvalidReference(
            DeliveryBlockedReason.INVALID_SPEC,
            f"The annotation {annotation} holds a name that no {kind} can have: {error}. "
            "Write names of models of this cluster, separated by commas.",
        ) from error
