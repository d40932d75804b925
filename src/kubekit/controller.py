"""Workers that take keys from a queue and reconcile them.

What belongs here: time limit, outcome, retry, metrics of one reconcile. What does not: any knowledge of
objects.

A reconcile is ``async (key) -> Done | Again(after)``. What it raises says whether retrying helps:

* ``Transient`` and errors of the API that may pass: back-off, logged from the third time on;
* ``Permanent``, ``NeedsUser``: no retry; the key comes back when something about it changes;
* a time-out: back-off; anything else is a mistake of ours: logged with its trace, back-off.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from kubekit.errors import NeedsUser, Permanent, Transient, fields_of, worth_retrying
from kubekit.queue import K, KeyedQueue, QueueClosed
from opskit import logging, metrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_log = logging.logger(__name__)

_RECONCILES = metrics.counter("reconciles", "Reconciles by outcome.", ["controller", "outcome"])
_SECONDS = metrics.histogram("reconcile_seconds", "Time that a reconcile took.", ["controller"])

_QUIET_FAILURES = 2
_LOOK_AGAIN = 0.2


@dataclass(frozen=True)
class Done:
    """Nothing to do until something changes."""


@dataclass(frozen=True)
class Again:
    """Look again in so many seconds, also if nothing changes."""

    after: float


class Controller(Generic[K]):
    """A queue, a function, and as many workers as may run at once."""

    def __init__(
        self,
        name: str,
        queue: KeyedQueue[K],
        reconcile: Callable[[K], Awaitable[Done | Again]],
        *,
        workers: int = 8,
        time_limit: float = 60.0,
    ) -> None:
        self.name = name
        self.queue = queue
        self._reconcile = reconcile
        self._workers = workers
        self._time_limit = time_limit

    async def run(self, may_act: Callable[[], bool] = lambda: True) -> None:
        """Work until the queue is closed, finish what is begun; begin nothing while ``may_act`` says no."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(may_act), name=f"{self.name}-{number}")

    async def _work(self, may_act: Callable[[], bool]) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            try:
                while not may_act():  # noqa: ASYNC110 time alone takes that permission away
                    await asyncio.sleep(_LOOK_AGAIN)
                await self._one(key)
            finally:
                self.queue.done(key)

    async def _one(self, key: K) -> None:
        started = asyncio.get_running_loop().time()
        with logging.bound(controller=self.name, object=_shown(key)):
            try:
                async with asyncio.timeout(self._time_limit):
                    result = await self._reconcile(key)
            except Exception as error:  # noqa: BLE001 one key's failure is that key's alone
                outcome = self._failed(key, error)
            else:
                outcome = self._succeeded(key, result)
        _SECONDS.labels(self.name).observe(asyncio.get_running_loop().time() - started)
        _RECONCILES.labels(self.name, outcome).inc()

    def _succeeded(self, key: K, result: Done | Again) -> str:
        self.queue.forget(key)
        if isinstance(result, Again):
            self.queue.add_after(key, result.after)
            return "again"
        return "done"

    def _failed(self, key: K, error: Exception) -> str:
        if isinstance(error, Permanent | NeedsUser):
            self.queue.forget(key)
            _log.warning("reconcile cannot go on", **fields_of(error))
            return "permanent"
        asked_for = getattr(error, "retry_after", None) or 0.0
        failures = self.queue.failures(key)
        delay = self.queue.retry(key, at_least=asked_for)
        if isinstance(error, TimeoutError):
            _log.warning("reconcile took too long", limit_s=self._time_limit, retry_in_s=round(delay, 1))
            return "timeout"
        if isinstance(error, Transient) or worth_retrying(error):
            if failures >= _QUIET_FAILURES:
                _log.warning("reconcile is retried", failures=failures + 1, **fields_of(error))
            return "transient"
        _log.error("reconcile failed", exc_info=error, retry_in_s=round(delay, 1))
        return "error"


def _shown(key: object) -> str:
    return "/".join(str(part) for part in key if part) if isinstance(key, tuple) else str(key)
