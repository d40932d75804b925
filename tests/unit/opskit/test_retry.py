"""Back-off and retrying, by a clock that the test moves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opskit.clock import ManualClock
from opskit.retry import Backoff, retrying

if TYPE_CHECKING:
    import random


class Busy(Exception):
    def __init__(self, retry_after: float | None = None) -> None:
        super().__init__("busy")
        self.retry_after = retry_after


class Flaky:
    """Fails so many times, then succeeds; remembers when it was called."""

    def __init__(self, clock: ManualClock, failures: int, error: Exception | None = None) -> None:
        self._clock = clock
        self._failures = failures
        self._error = error or Busy()
        self.calls: list[float] = []

    async def __call__(self) -> str:
        self.calls.append(self._clock.monotonic())
        if len(self.calls) <= self._failures:
            raise self._error
        return "done"


EXACT = Backoff(first=1, most=8, factor=2, jitter=0)


def test_delays_grow_to_the_most() -> None:
    assert [EXACT.delay(failures) for failures in (1, 2, 3, 4, 5, 5000)] == [1, 2, 4, 8, 8, 8]


@given(st.integers(1, 10_000), st.floats(0, 1), st.randoms(use_true_random=False))
def test_jitter_only_shortens(failures: int, jitter: float, rng: random.Random) -> None:
    backoff = Backoff(first=0.5, most=300, jitter=jitter)
    whole = Backoff(first=0.5, most=300, jitter=0).delay(failures)
    assert whole * (1 - jitter) <= backoff.delay(failures, rng) <= whole


async def test_tries_until_it_works() -> None:
    clock = ManualClock()
    flaky = Flaky(clock, 3)
    running = asyncio.create_task(retrying(flaky, retry_on=(Busy,), backoff=EXACT, clock=clock))
    await clock.until_sleeping()
    await clock.advance(60)
    assert await running == "done"
    assert flaky.calls == [0, 1, 3, 7]


async def test_an_error_that_is_not_worth_it_is_raised_at_once() -> None:
    clock = ManualClock()
    flaky = Flaky(clock, 1, ValueError("wrong"))
    with pytest.raises(ValueError, match="wrong"):
        await retrying(flaky, retry_on=(Busy,), clock=clock)
    assert len(flaky.calls) == 1


async def test_retry_after_is_honoured() -> None:
    clock = ManualClock()
    flaky = Flaky(clock, 1, Busy(retry_after=30))
    running = asyncio.create_task(retrying(flaky, retry_on=(Busy,), backoff=EXACT, clock=clock))
    await clock.until_sleeping()
    await clock.advance(29)
    assert not running.done()
    await clock.advance(1)
    assert await running == "done"


async def test_no_attempt_begins_after_the_deadline() -> None:
    clock = ManualClock()
    flaky = Flaky(clock, 99)
    running = asyncio.create_task(
        retrying(
            flaky, retry_on=lambda error: isinstance(error, Busy), backoff=EXACT, deadline=4, clock=clock
        )
    )
    await clock.until_sleeping()
    await clock.advance(60)
    with pytest.raises(Busy):
        await running
    assert flaky.calls == [0, 1, 3]


async def test_attempts_are_counted() -> None:
    clock = ManualClock()
    flaky = Flaky(clock, 99)
    running = asyncio.create_task(retrying(flaky, retry_on=(Busy,), backoff=EXACT, attempts=2, clock=clock))
    await clock.until_sleeping()
    await clock.advance(60)
    with pytest.raises(Busy):
        await running
    assert len(flaky.calls) == 2


async def test_sleepers_wake_in_the_order_of_their_times() -> None:
    clock, woken = ManualClock(), []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((seconds, clock.monotonic()))

    tasks = [asyncio.create_task(sleeper(seconds)) for seconds in (3, 1, 2)]
    await clock.until_sleeping(3)
    await clock.advance(2.5)
    assert woken == [(1, 1), (2, 2)]
    await clock.advance(1)
    await asyncio.gather(*tasks)
    assert (clock.now() - ManualClock().now()).total_seconds() == 3.5
