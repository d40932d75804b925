"""The queue between what changed and who looks at it: keys only, de-duplicated, one worker per key.

What belongs here: which key is worked on next, and when. What does not: the work (``kubekit.controller``).

Guarantees: a key that was added is handed out at least once after that; a key is never handed out twice at
the same time; a key added while it is worked on is handed out once more afterwards. Keys of high priority
go first, but a key of low priority that has waited for ``patience`` seconds is not overtaken any more.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from enum import IntEnum
from typing import TYPE_CHECKING, Generic, TypeVar

from opskit import metrics
from opskit.retry import Backoff

if TYPE_CHECKING:
    from collections.abc import Hashable

K = TypeVar("K", bound="Hashable")

_DEPTH = metrics.gauge("queue_depth", "Keys that are ready and wait for a worker.", ["queue"])
_ADDS = metrics.counter("queue_adds", "Keys added, repeated ones included.", ["queue"])
_RETRIES = metrics.counter("queue_retries", "Keys put back after a failure.", ["queue"])
_WAIT = metrics.histogram("queue_wait_seconds", "From ready to handed out.", ["queue"])


class Priority(IntEnum):
    """HIGH for what somebody changed, LOW for the first list and for looking again."""

    HIGH = 0
    LOW = 1


class QueueClosed(Exception):
    """The queue hands out nothing any more."""


class KeyedQueue(Generic[K]):
    """A queue of keys; used from one event loop."""

    def __init__(self, name: str, *, backoff: Backoff | None = None, patience: float = 10.0) -> None:
        self.name = name
        self._backoff = backoff or Backoff()
        self._patience = patience
        self._ready: dict[Priority, dict[K, float]] = {Priority.HIGH: {}, Priority.LOW: {}}
        self._running: set[K] = set()
        self._again: dict[K, Priority] = {}
        self._delayed: dict[K, tuple[float, Priority]] = {}
        self._alarms: list[tuple[float, int, K]] = []
        self._serial = 0
        self._timer: asyncio.TimerHandle | None = None
        self._failures: dict[K, int] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def add(self, key: K, priority: Priority = Priority.HIGH) -> None:
        """Have the key handed out as soon as a worker is free."""
        if self._closed:
            return
        _ADDS.labels(self.name).inc()
        self._add(key, priority)

    def add_after(self, key: K, seconds: float, priority: Priority = Priority.LOW) -> None:
        """Have the key handed out in so many seconds; of several such wishes the earliest counts."""
        if self._closed:
            return
        when = _now() + max(seconds, 0.0)
        known = self._delayed.get(key)
        if known is not None and known[0] <= when:
            self._delayed[key] = (known[0], min(known[1], priority))
            return
        self._delayed[key] = (when, priority)
        self._serial += 1
        heapq.heappush(self._alarms, (when, self._serial, key))
        self._set_timer()

    def retry(self, key: K, *, at_least: float = 0.0) -> float:
        """Have the key handed out again after its own growing back-off; return that delay."""
        failures = self._failures.get(key, 0) + 1
        self._failures[key] = failures
        delay = max(self._backoff.delay(failures), at_least)
        _RETRIES.labels(self.name).inc()
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Let the next failure of the key start with the shortest delay."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return how often the key failed in a row."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """Return the next key; the caller works on it and then calls ``done``."""
        while not self._closed:
            key = self._take()
            if key is not None:
                return key[0]
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake_one()
                raise
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        raise QueueClosed(self.name)

    def done(self, key: K) -> None:
        """End the work on a key; if it was added meanwhile it becomes ready again."""
        self._running.remove(key)
        priority = self._again.pop(key, None)
        if priority is not None and not self._closed:
            self._add(key, priority)

    def close(self) -> None:
        """Hand out nothing any more; waiting workers get ``QueueClosed``."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        while self._waiters:
            self._wake_one()

    @property
    def depth(self) -> int:
        """Return how many keys are ready."""
        return sum(len(keys) for keys in self._ready.values())

    @property
    def running(self) -> int:
        """Return how many keys are being worked on."""
        return len(self._running)

    def oldest_ready_age(self) -> float:
        """Return for how many seconds the ready key that waits longest has waited."""
        now = _now()
        return now - min((since for keys in self._ready.values() for since in keys.values()), default=now)

    def _add(self, key: K, priority: Priority) -> None:
        if key in self._running:
            self._again[key] = min(priority, self._again.get(key, priority))
            return
        high, low = self._ready[Priority.HIGH], self._ready[Priority.LOW]
        if key in high:
            return
        if priority is Priority.HIGH:
            high[key] = low.pop(key, _now())
        else:
            low.setdefault(key, _now())
        self._count()
        self._wake_one()

    def _take(self) -> tuple[K] | None:
        keys = self._ready[self._turn()]
        if not keys:
            return None
        key, since = next(iter(keys.items()))
        del keys[key]
        self._running.add(key)
        _WAIT.labels(self.name).observe(_now() - since)
        self._count()
        return (key,)

    def _turn(self) -> Priority:
        high, low = self._ready[Priority.HIGH], self._ready[Priority.LOW]
        if low and (not high or _now() - next(iter(low.values())) > self._patience):
            return Priority.LOW
        return Priority.HIGH

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._alarms:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._alarms[0][0], self._ring)

    def _ring(self) -> None:
        now = _now()
        while self._alarms and self._alarms[0][0] <= now:
            when, _, key = heapq.heappop(self._alarms)
            wish = self._delayed.get(key)
            if wish is not None and wish[0] == when:
                del self._delayed[key]
                self._add(key, wish[1])
        self._timer = None
        self._set_timer()

    def _count(self) -> None:
        _DEPTH.labels(self.name).set(self.depth)


def _now() -> float:
    return asyncio.get_running_loop().time()
