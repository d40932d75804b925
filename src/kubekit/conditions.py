"""Conditions of an object's status, as the Kubernetes API conventions describe them.

What belongs here: the Struct and its merging. What does not: which types and reasons there are (each
product's ``api``).
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from kubekit.moments import whole

Status = Literal["True", "False", "Unknown"]

_TYPE: dict[str, Any] = {"maxLength": 316, "pattern": "^[A-Za-z]([-A-Za-z0-9_./]*[A-Za-z0-9])?$"}
_REASON: dict[str, Any] = {
    "minLength": 1,
    "maxLength": 1024,
    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
}


class Condition(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One aspect of the object's state: whether it holds, why, and since when."""

    type: Annotated[str, msgspec.Meta(description="Name of the aspect.", extra_json_schema=_TYPE)]
    status: Annotated[Status, msgspec.Meta(description="Whether it holds.")]
    reason: Annotated[
        str,
        msgspec.Meta(description="Why, in one word of a closed vocabulary.", extra_json_schema=_REASON),
    ]
    message: Annotated[
        str, msgspec.Meta(description="Why, for a person.", extra_json_schema={"maxLength": 32768})
    ]
    last_transition_time: Annotated[
        datetime,
        msgspec.Meta(description="When the status last changed.", extra_json_schema={"format": "date-time"}),
    ]
    observed_generation: Annotated[
        int | None,
        msgspec.Meta(
            description="The generation of the object that this was said about.",
            extra_json_schema={"minimum": 0},
        ),
    ] = None


def set_condition(
    conditions: Iterable[Condition],
    type: str,  # noqa: A002 - the field's name in the API
    status: Status,
    reason: str,
    message: str,
    *,
    now: datetime,
    generation: int,
) -> tuple[Condition, ...]:
    """Return the conditions with this one in its place.

    ``lastTransitionTime`` is kept unless the status changes, so that saying the same again is no change.
    """
    present = tuple(conditions)
    old = find(present, type)
    since = old.last_transition_time if old and old.status == status else whole(now)
    new = Condition(
        type=type,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=since,
        observed_generation=generation,
    )
    if old is None:
        return (*present, new)
    return tuple(new if one is old else one for one in present)


def find(conditions: Iterable[Condition], type: str) -> Condition | None:  # noqa: A002
    """Return the condition of that type, if it is there."""
    return next((one for one in conditions if one.type == type), None)


def is_true(conditions: Iterable[Condition], type: str) -> bool:  # noqa: A002
    """Return whether the condition is there and holds."""
    found = find(conditions, type)
    return found is not None and found.status == "True"


def first_not_true(conditions: Iterable[Condition], order: Sequence[str] = ()) -> Condition | None:
    """Return the first condition that does not hold: types of ``order`` first, in that order."""
    rank = {name: place for place, name in enumerate(order)}
    standing = [one for one in conditions if one.status != "True"]
    return min(standing, key=lambda one: rank.get(one.type, len(rank)), default=None)
