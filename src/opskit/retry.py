"""Retrying with exponential back-off: pure delays, and one loop that honours ``retry_after``.

What belongs here: when to try again. What does not: which errors are worth it; the caller knows.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from opskit.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

_SYSTEM_RANDOM = random.SystemRandom()


@dataclass(frozen=True)
class Backoff:
    """Delays that grow from ``first`` by ``factor`` up to ``most`` seconds.

    ``jitter`` is the share of a delay that is random: 0 none, 1 anything from zero to the whole delay.
    """

    first: float = 0.5
    most: float = 300.0
    factor: float = 2.0
    jitter: float = 0.5

    def delay(self, failures: int, rng: random.Random = _SYSTEM_RANDOM) -> float:
        """Return the seconds to wait after so many failures in a row (1 is the first)."""
        if failures < 1:
            raise ValueError("a delay follows at least one failure")
        whole = self.first
        for _ in range(failures - 1):
            whole *= self.factor
            if whole >= self.most:
                break
        whole = min(whole, self.most)
        return whole * (1 - self.jitter * rng.random())


async def retrying(
    call: Callable[[], Awaitable[T]],
    *,
    retry_on: tuple[type[Exception], ...] | Callable[[Exception], bool],
    backoff: Backoff = Backoff(),
    attempts: int | None = None,
    deadline: float | None = None,
    clock: Clock | None = None,
    rng: random.Random = _SYSTEM_RANDOM,
) -> T:
    """Await ``call()`` until it succeeds, or raise its error when that is final or time or attempts run out.

    ``deadline`` is in seconds from now: no attempt begins after it. An error with a ``retry_after`` attribute
    (seconds) is waited for at least that long.
    """
    clock = clock or SystemClock()
    end = None if deadline is None else clock.monotonic() + deadline
    failures = 0
    while True:
        try:
            return await call()
        except Exception as error:
            failures += 1
            worth_it = retry_on(error) if not isinstance(retry_on, tuple) else isinstance(error, retry_on)
            if not worth_it or failures == attempts:
                raise
            delay = max(backoff.delay(failures, rng), _asked_for(error))
            if end is not None and clock.monotonic() + delay > end:
                raise
            await clock.sleep(delay)


def _asked_for(error: Exception) -> float:
    after = getattr(error, "retry_after", None)
    return float(after) if isinstance(after, int | float) else 0.0
