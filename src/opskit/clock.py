"""Clocks: one protocol for wall time, monotonic time and sleeping, so that time can be a test's input.

What belongs here: reading and passing time. What does not: back-off and deadlines (``retry``).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for time-outs, and sleep."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never run backwards; only differences mean something."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after that many seconds of this clock."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the machine's monotonic time in seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep in the running event loop."""
        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that moves only when it is told to; sleepers wake in the order of their times."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed = 0.0
        self._serial = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._slept = asyncio.Event()

    def now(self) -> datetime:
        """Return the start time plus what was advanced."""
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been advanced far enough."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._serial), woken))
        self._slept.set()
        await woken

    async def advance(self, seconds: float) -> None:
        """Move time forward, waking every sleeper at its own moment and letting it run."""
        end = self._elapsed + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            when, _, woken = heapq.heappop(self._sleepers)
            self._elapsed = max(self._elapsed, when)
            if not woken.done():
                woken.set_result(None)
            await _let_others_run()
        self._elapsed = end
        await _let_others_run()

    async def until_sleeping(self, count: int = 1) -> None:
        """Return when at least so many tasks sleep on this clock."""
        while sum(not woken.done() for _, _, woken in self._sleepers) < count:
            self._slept.clear()
            await self._slept.wait()


async def _let_others_run() -> None:
    """Give woken tasks a few turns of the loop to reach their next wait."""
    for _ in range(10):
        await asyncio.sleep(0)
