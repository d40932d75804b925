"""What the catalogue says of a model instead of facts, as a refusal of the order; the same by every way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiinference.api.reasons import OrderReason
from aiinference.models.outcomes import Refusal

if TYPE_CHECKING:
    from aiinference.models.reference import Reference

#: what others say is passed on up to here, in characters
LIMIT = 512


def not_found(reference: Reference) -> Refusal:
    """Say that there is no such model."""
    return Refusal(
        OrderReason.MODEL_NOT_FOUND,
        f"There is no {reference}. Create it, or correct spec.model.ref; the order goes on once it is there.",
    )


def not_ready(reference: Reference, reason: str, message: str) -> Refusal:
    """Say what the model waits for, or why it never becomes ready."""
    return Refusal(
        OrderReason.MODEL_NOT_READY,
        f"{reference} is not ready: {reason}: {message[:LIMIT]} The order goes on once the model is Ready.",
    )
