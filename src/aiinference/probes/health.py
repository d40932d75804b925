"""From single answers to whether an order is well. Pure: equal history, equal verdict.

What belongs here: the state between two questions and what is said about it. What does not: asking.

Before an order has answered for the first time, it waits; one good answer makes it ready. After that a bad
answer is nothing by itself, several in a row over some time are; and then it takes more than one good answer
to be well again, so that an order at the edge does not change its mind all the time. One that has no room for
a question is busy, which is neither for some minutes; after them it is a bad answer, since nobody
could tell such an order from one whose runtime hangs, and its users meet the same refusal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from aiinference.api.reasons import OrderPhase, OrderReason

if TYPE_CHECKING:
    from aiinference.probes.client import Outcome

FAILURES, FAILING_FOR = 3, timedelta(seconds=30)
SUCCESSES = 2
BUSY_FOR = timedelta(minutes=5)
_STARTING, _WELL, _DOUBTFUL = timedelta(seconds=2), timedelta(seconds=30), timedelta(seconds=10)
_NO_ROOM = (
    "there is no room for a check, as many requests are on their way as there may be (429). "
    "Fewer requests at once or more replicas would help."
)


@dataclass(frozen=True)
class Health:
    """What is remembered of an order's answers."""

    #: None: it has never answered
    well: bool | None = None
    failures: int = 0
    failing_since: datetime | None = None
    successes: int = 0
    #: since when there was no room for a question, without a good answer in between
    busy_since: datetime | None = None
    #: what was wrong with the newest answer
    wrong: str = ""
    ready_time: datetime | None = None


@dataclass(frozen=True)
class Verdict:
    """What the condition Ready says."""

    ready: bool
    phase: OrderPhase
    reason: OrderReason
    message: str


def resumed(reason: str | None, ready_time: datetime | None) -> Health:
    """Return what a new process knows from the condition Ready that an earlier one has written."""
    known = {OrderReason.READY: True, OrderReason.SERVICE_UNHEALTHY: False}
    well = next((well for word, well in known.items() if word == reason), None)
    return Health(well=well, ready_time=ready_time)


def step(health: Health, outcome: Outcome, now: datetime) -> Health:
    """Take one more answer into account."""
    if outcome.busy:
        since = health.busy_since or now
        health = replace(health, busy_since=since)
        return health if now - since < BUSY_FOR else _failed(health, _NO_ROOM, now)
    if outcome.ok:
        successes = health.successes + 1
        return replace(
            health,
            well=health.well is not False or successes >= SUCCESSES,
            failures=0,
            failing_since=None,
            successes=successes,
            busy_since=None,
            wrong="",
            ready_time=health.ready_time or now,
        )
    return _failed(health, outcome.wrong, now)


def _failed(health: Health, wrong: str, now: datetime) -> Health:
    failures, since = health.failures + 1, health.failing_since or now
    ill = failures >= FAILURES and now - since >= FAILING_FOR
    return replace(
        health,
        well=False if health.well and ill else health.well,
        failures=failures,
        failing_since=since,
        successes=0,
        wrong=wrong,
    )


def verdict(health: Health) -> Verdict:
    """Return what is said of an order with this history."""
    if health.well:
        return Verdict(ready=True, phase=OrderPhase.READY, reason=OrderReason.READY, message=_doubt(health))
    if health.well is None:
        message = f"The API has not answered yet: {_told(health)} It is asked again until it does."
        return Verdict(
            ready=False, phase=OrderPhase.PENDING, reason=OrderReason.HEALTH_CHECK_FAILED, message=message
        )
    message = (
        f"The API answered before and fails now: {_told(health)} Requests may fail; look at the Pods' logs."
    )
    return Verdict(
        ready=False, phase=OrderPhase.FAILED, reason=OrderReason.SERVICE_UNHEALTHY, message=message
    )


def gist(health: Health) -> tuple[OrderReason, str]:
    """Return what is worth telling again when it changes; words of an answer that are quoted are not."""
    told = health.wrong if health.well else _told(health)
    return verdict(health).reason, told.partition(": ")[0]


def pause(health: Health) -> timedelta:
    """Return when to ask again."""
    if health.well is None:
        return _STARTING
    return _WELL if health.well and not (health.failures or health.busy_since) else _DOUBTFUL


def _told(health: Health) -> str:
    if health.wrong:
        return health.wrong
    if health.busy_since:
        return _NO_ROOM
    if health.well is None:
        return "The API was not asked yet."
    return "it answers again, and is watched a little longer."


def _doubt(health: Health) -> str:
    if health.failures:
        return f"The API answers; its last {health.failures} checks failed: {health.wrong}"
    return "The API answers."
