"""What comes of asking for an order's model: a resolution, or a refusal with its reason.

What belongs here: the two shapes. What does not: how they come about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiinference.api.reasons import OrderReason

if TYPE_CHECKING:
    from aiinference.api.reasons import EndpointType, ModelScope

_PASSING = frozenset(
    {OrderReason.MODEL_NOT_FOUND, OrderReason.MODEL_NOT_READY, OrderReason.CATALOG_UNAVAILABLE}
)


@dataclass(frozen=True, slots=True)
class Resolution:
    """The model may be served, and so."""

    #: None for an order without a class
    endpoint_type: EndpointType | None
    #: None when the catalogue was not asked
    scope: ModelScope | None
    #: to plan with: the catalogue's, else the order's own, else the one in the model's name
    parameter_count: int | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the model is not served; the message says what, why and the next step."""

    reason: OrderReason
    message: str

    @property
    def passing(self) -> bool:
        """Tell whether asking again later may help although neither order nor class has changed."""
        return self.reason in _PASSING

    @property
    def outage(self) -> bool:
        """Tell whether nothing was learnt about the model at all: then what runs is left as it is."""
        return self.reason is OrderReason.CATALOG_UNAVAILABLE


class Unavailable(Exception):
    """One way to the catalogue does not work just now; the text says which and how."""
