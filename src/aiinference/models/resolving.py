"""From an order and its policy to the model that it gets: the one question that the orders' controller asks.

What belongs here: the sequence. What does not: any of its steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiinference.api.reasons import ModelSource, OrderReason
from aiinference.models import matrix, reference
from aiinference.models.outcomes import Refusal

if TYPE_CHECKING:
    from aiinference.api.orders import InferenceService
    from aiinference.classes.policy import EffectivePolicy
    from aiinference.models.catalogue import Catalogue
    from aiinference.models.facts import ModelFacts
    from aiinference.models.outcomes import Resolution


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model that may be served, and what is known of it."""

    facts: ModelFacts
    resolution: Resolution


async def model_of(
    order: InferenceService, policy: EffectivePolicy, catalogue: Catalogue
) -> ResolvedModel | Refusal:
    """Return the order's model, or the reason for which it is not resolved; raises nothing."""
    if order.spec.model.src != ModelSource.AI_MODELS:
        return _not_served(order)
    named = reference.of(order)
    if isinstance(named, Refusal):
        return named
    facts = await catalogue.facts(named)
    if isinstance(facts, Refusal):
        return facts
    resolution = matrix.resolve(policy, facts, order)
    return resolution if isinstance(resolution, Refusal) else ResolvedModel(facts, resolution)


def _not_served(order: InferenceService) -> Refusal:
    """Say that models straight from a hub are for a later version; it looks at such orders again."""
    return Refusal(
        OrderReason.UNSUPPORTED_SOURCE,
        f"This version serves models of the catalogue only, and {order.spec.model.ref.name} is ordered from "
        f"{order.spec.model.src}. Make it a Model of ai-models and order that one with src: ai-models.",
    )
