"""From single answers to whether an order is well. Pure: equal history, equal verdict.

What belongs here: the state between two questions and what is said about it. What does not: asking.

Before an order has answered for the first time, it waits; one good answer makes it ready. After that a bad
answer is nothing by itself, several in a row over some time are; and then it takes more than one good answer
to be well again, so that an order at the edge does not change its mind all the time. One that has no room for
a question is busy, which is neither.
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
_STARTING, _WELL, _DOUBTFUL = timedelta(seconds=2), timedelta(seconds=30), timedelta(seconds=10)


@dataclass(frozen=True)
class Health:
    """What is remembered of an order's answers."""

    #: None: it has never answered
    well: bool | None = None
    failures: int = 0
    failing_since: datetime | None = None
    successes: int = 0
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
        return health
    if outcome.ok:
        successes = health.successes + 1
        return replace(
            health,
            well=health.well is not False or successes >= SUCCESSES,
            failures=0,
            failing_since=None,
            successes=successes,
            wrong="",
            ready_time=health.ready_time or now,
        )
    failures, since = health.failures + 1, health.failing_since or now
    ill = failures >= FAILURES and now - since >= FAILING_FOR
    return replace(
        health,
        well=False if health.well and ill else health.well,
        failures=failures,
        failing_since=since,
        successes=0,
        wrong=outcome.wrong,
    )


def verdict(health: Health) -> Verdict:
    """Return what is said of an order with this history."""
    if health.well:
        return Verdict(ready=True, phase=OrderPhase.READY, reason=OrderReason.READY, message=_doubt(health))
    if health.well is None:
        told = health.wrong or "The API was not asked yet."
        message = f"The API has not answered yet: {told} It is asked again until it does."
        return Verdict(
            ready=False, phase=OrderPhase.PENDING, reason=OrderReason.HEALTH_CHECK_FAILED, message=message
        )
    told = health.wrong or "it answers again, and is watched a little longer."
    message = f"The API answered before and fails now: {told} Requests may fail; look at the Pods' logs."
    return Verdict(
        ready=False, phase=OrderPhase.FAILED, reason=OrderReason.SERVICE_UNHEALTHY, message=message
    )


def gist(health: Health) -> tuple[OrderReason, str]:
    """Return what is worth telling again when it changes; words of an answer that are quoted are not."""
    return verdict(health).reason, health.wrong.partition(": ")[0]


def pause(health: Health) -> timedelta:
    """Return when to ask again."""
    if health.well is None:
        return _STARTING
    return _WELL if health.well and not health.failures else _DOUBTFUL


def _doubt(health: Health) -> str:
    if health.failures:
        return f"The API answers; its last {health.failures} checks failed: {health.wrong}"
    return "The API answers."
