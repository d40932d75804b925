"""The class's policy against what is known of the model.

What belongs here: whether the model may be served, by which API, and how large it is taken to be. What does
not: finding the facts (``catalogue``), and whether a device holds it (the planner). Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiinference.api import quantities
from aiinference.api.reasons import EndpointType, ModelSource, OrderReason
from aiinference.models.outcomes import Refusal, Resolution
from modelkit.namesize import parameter_count as size_in_name

if TYPE_CHECKING:
    from aiinference.api.orders import InferenceService, OrderedModel
    from aiinference.classes.policy import EffectivePolicy
    from aiinference.models.facts import ModelFacts

_SERVED: Final = frozenset(EndpointType)
#: a limit is compared in whole billions, or millions, unless it is written more precisely
_BILLION: Final = 10**9
_MILLION: Final = 10**6


def resolve(
    policy: EffectivePolicy, facts: ModelFacts | None, order: InferenceService
) -> Resolution | Refusal:
    """Return how the model is served, or why it is not; ``facts`` are None where no catalogue was asked."""
    endpoint = _endpoint(policy, facts, order.spec.model)
    if isinstance(endpoint, Refusal):
        return endpoint
    ordered = _ordered(order.spec.model)
    if isinstance(ordered, Refusal):
        return ordered
    named = size_in_name(order.spec.model.ref.name) or None
    # What the order says would let any model of the catalogue under any limit: there it helps to plan only.
    known = facts.parameter_count if facts else ordered
    refusal = _judged(policy, order.spec.model, known or named)
    if refusal is not None:
        return refusal
    return Resolution(endpoint, facts.scope if facts else None, known or ordered or named)


def _endpoint(
    policy: EffectivePolicy, facts: ModelFacts | None, model: OrderedModel
) -> EndpointType | Refusal | None:
    """Return the first API of the class that the model can serve; what is unknown narrows nothing."""
    if policy.class_name is None:
        return None
    able = facts.supported_endpoint_types if facts else ()
    for allowed in policy.endpoint_types:
        # A newer class may allow what this version does not know yet.
        if allowed in _SERVED and (not able or allowed in able):
            return EndpointType(allowed)
    return Refusal(
        OrderReason.ENDPOINT_TYPE_NOT_SUPPORTED,
        f"Class {policy.class_name} allows {_list(policy.endpoint_types)}, and model {model.ref.name} can be "
        f"asked for {_list(able)}. Order another model, or under a class that allows what this one can do.",
    )


def _ordered(model: OrderedModel) -> int | Refusal | None:
    """Return the number of parameters that the order says."""
    if model.parameter_count is None:
        return None
    try:
        return quantities.parse(model.parameter_count)
    except quantities.BadQuantity as error:
        return Refusal(
            OrderReason.PARAMETER_COUNT_UNKNOWN, f"spec.model.parameterCount cannot be read: {error}."
        )


def _judged(policy: EffectivePolicy, model: OrderedModel, size: int | None) -> Refusal | None:
    """Return why the model is too large for the class, or is not known not to be."""
    most = policy.max_parameter_count
    if most is None:
        return None
    limit = f"class {policy.class_name} allows at most {quantities.text(most)}"
    if size is None:
        return Refusal(OrderReason.PARAMETER_COUNT_UNKNOWN, _unknown(model, limit))
    if within(most, size):
        return None
    return Refusal(
        OrderReason.PARAMETER_COUNT_EXCEEDED,
        f"Model {model.ref.name} has {quantities.text(size)} parameters, and {limit}. "
        "Order a smaller model, or under a class that allows this one.",
    )


def _unknown(model: OrderedModel, limit: str) -> str:
    """Return what is said of a model whose size nobody tells who counts."""
    name = model.ref.name
    if model.src != ModelSource.AI_MODELS:
        return (
            f"The size of model {name} is not told by its name, and {limit} parameters. "
            "Set spec.model.parameterCount, for example to 7B."
        )
    return (
        f"The size of model {name} is not known to the catalogue and not told by its name, and {limit} "
        "parameters; what the order says does not count against it. Publish the model under a name with its "
        "size, such as llm-7b, or order under a class without a limit."
    )


def within(most: int, size: int) -> bool:
    """Tell whether a size is within a limit, compared as precisely as the limit is written.

    Models are called by their size cut to the last figure told: Llama-3.3-70B has 70.55 billion parameters.
    A limit of 70B is meant for it; it ends before 71B, as 1.5B ends before 1.6B.
    """
    step = _BILLION if most >= _BILLION else _MILLION
    while most % step:
        step //= 10
    return size < most + step


def _list(types: tuple[str, ...]) -> str:
    return ", ".join(types) or "nothing that it tells"
