"""The main turns of an order as Kubernetes events.

What belongs here: which difference of two statuses is worth one. What does not: the statuses (``report``).

An order's reasons are the events' too. A reconcile that changes nothing tells nothing, and what changes to
and fro, such as a runtime that ends again and again, is told once in a while.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from aiinference.api.orders import InferenceServiceStatus
from aiinference.api.reasons import OrderCondition, OrderReason
from kubekit.conditions import find

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiinference.api.orders import EndpointStatus, InferenceService
    from kubekit.conditions import Condition
    from kubekit.events import Recorder
    from opskit.clock import Clock

#: the same is not told again for so long
SILENT_SECONDS = 600.0
#: no reason of a condition
HOST_CHANGED = "HostChanged"
_REACHED = frozenset({OrderCondition.PLANNED, OrderCondition.READY})
#: every order goes through these
_ON_THE_WAY = frozenset({OrderReason.PENDING, OrderReason.STARTING, OrderReason.HEALTH_CHECK_FAILED})
_NO_FAULT = frozenset({OrderReason.UPDATING, OrderReason.MODEL_NOT_READY, OrderReason.MODEL_DELIVERY_PENDING})

Key = tuple[str, str]


@dataclass(frozen=True)
class Turn:
    """One event."""

    kind: Literal["Normal", "Warning"]
    reason: str
    message: str


def turns(old: Iterable[Condition], new: Iterable[Condition]) -> list[Turn]:
    """Return what happened between two statuses; a reason that several conditions have is told once."""
    before = tuple(old)
    told: dict[str, Turn] = {}
    for one in new:
        known = find(before, one.type)
        if known is not None and (known.status, known.reason) == (one.status, one.reason):
            continue
        if one.status == "True":
            if one.type in _REACHED:
                told.setdefault(one.reason, Turn("Normal", one.reason, one.message))
        elif one.reason not in _ON_THE_WAY and not _is_first(known, one):
            kind: Literal["Normal", "Warning"] = "Normal" if one.reason in _NO_FAULT else "Warning"
            told.setdefault(one.reason, Turn(kind, one.reason, one.message))
    return list(told.values())


def moves(old: EndpointStatus | None, new: EndpointStatus | None) -> list[Turn]:
    """Return that an order has another host than its clients know, if so."""
    before, now = old.domain if old else None, new.domain if new else None
    if before is None or now is None or before == now:
        return []
    return [Turn("Warning", HOST_CHANGED, f"Host {before} was the order's; clients have to use {now} now.")]


def _is_first(before: Condition | None, now: Condition) -> bool:
    """Tell whether replicas are said to be replaced that were never there."""
    return now.reason == OrderReason.UPDATING and (before is None or before.status != "True")


class Story:
    """Tells the turns of all orders."""

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock
        #: when something was told of an order last, by kind and reason
        self._told: dict[Key, dict[tuple[str, str], float]] = {}

    async def tell(self, order: InferenceService, now: InferenceServiceStatus) -> None:
        """Record what the order's new status says that its old one did not."""
        told, moment = self._told.setdefault(order.metadata.key, {}), self._clock.monotonic()
        before = order.status or InferenceServiceStatus()
        for turn in (*turns(before.conditions, now.conditions), *moves(before.endpoint, now.endpoint)):
            last = told.get((turn.kind, turn.reason))
            if last is not None and moment - last < SILENT_SECONDS:
                continue
            told[turn.kind, turn.reason] = moment
            await self._recorder.event(order, turn.kind, turn.reason, turn.message)

    def forget(self, key: Key) -> None:
        """Remember nothing more of an order that is gone."""
        self._told.pop(key, None)
