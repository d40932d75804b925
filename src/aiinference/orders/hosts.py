"""Which host an External order has; once given it stays. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiinference.api.reasons import ExposureType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiinference.api.orders import InferenceService
    from aiinference.classes.policy import EffectivePolicy


def domain(order: InferenceService) -> str | None:
    """Return the host that an order has been given."""
    endpoint = order.status.endpoint if order.status else None
    return endpoint.domain if endpoint else None


def host(
    order: InferenceService, policy: EffectivePolicy, template: str, others: Iterable[InferenceService]
) -> str | None:
    """Return the order's host: the one it has, else its own name, else one with its namespace too."""
    if policy.exposure.type != ExposureType.EXTERNAL or not template:
        return None
    given = domain(order)
    if given:
        return given
    plain = template % order.metadata.name
    taken = any(
        domain(other) == plain or (other.status is None and _comes_first(other, order))
        for other in others
        if other.metadata.uid != order.metadata.uid
    )
    return template % f"{order.metadata.name}--{order.metadata.namespace}" if taken else plain


def _comes_first(other: InferenceService, order: InferenceService) -> bool:
    """Tell whether an order of the same name that has no host yet is looked at before this one."""
    mine, its = order.metadata, other.metadata
    return its.name == mine.name and (its.creation_timestamp, its.uid) < (mine.creation_timestamp, mine.uid)
