"""One process: informers, servers, the lease, controllers, and their orderly end.

What belongs here: order of starting and stopping, liveness and readiness. What does not: any product's
wiring.

Stages: START (health endpoints) -> informers -> all synced -> SYNCED (webhooks, APIs; every replica) -> the
lease is ours -> LEADING (controllers). SIGTERM: not ready, queues closed, begun reconciles finished
(``grace``), lease released, the rest cancelled. Losing the lease ends the process at once, without waiting
for anybody: another replica leads.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeVar

from kubekit.events import Recorder
from kubekit.informer import Informer
from kubekit.lease import Lease, LeaseLost
from kubekit.resources.meta import Resource
from opskit import logging, metrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from kubekit.client import Client, Params
    from kubekit.controller import Controller
    from kubekit.store import Index
    from kubekit.wire import Undecodable

R = TypeVar("R", bound=Resource)

_log = logging.logger(__name__)

_LAG = metrics.gauge("loop_lag_seconds", "How late the event loop ran its last heartbeat.")

_BEAT = 1.0
_BEAT_LIMIT = 30.0
_WATCH_LIMIT = 900.0
_KEY_LIMIT = 600.0
#: objects are kept for long and hold no cycles: looking for those often only costs
_GC_THRESHOLD = 50_000
_LOST_EXIT_CODE = 70


class Stage(IntEnum):
    """When a task starts."""

    START = 0
    SYNCED = 1
    LEADING = 2


class Manager:
    """Runs what was registered, until SIGTERM or ``stop``."""

    def __init__(
        self,
        client: Client,
        *,
        lease: Lease | None = None,
        grace: float = 20.0,
        on_lost: Callable[[int], Any] = os._exit,
    ) -> None:
        self.client = client
        self._lease = lease
        self._grace = grace
        self._on_lost = on_lost
        self._informers: dict[tuple[str, str, str], Informer[Any]] = {}
        self._controllers: list[Controller[Any]] = []
        self._tasks: dict[Stage, list[tuple[str, Callable[[], Awaitable[None]]]]] = {
            stage: [] for stage in Stage
        }
        self._stopping = asyncio.Event()
        self._synced = False
        self._beat_at: float | None = None

    def informer(
        self,
        struct: type[R],
        *,
        namespace: str | None = None,
        selectors: Params | None = None,
        indexes: Mapping[str, Index[R]] | None = None,
    ) -> Informer[R]:
        """Return the process's one informer of a Struct, namespace and selector, with these indexes added."""
        view = f"{struct.__module__}.{struct.__qualname__}"
        key = (view, namespace or "", str(sorted((selectors or {}).items())))
        informer: Informer[R] | None = self._informers.get(key)
        if informer is None:
            informer = Informer(self.client, struct, namespace=namespace, selectors=selectors)
            self._informers[key] = informer
        for name, index in (indexes or {}).items():
            informer.store.add_index(name, index)
        return informer

    def add_controller(self, controller: Controller[Any]) -> None:
        """Have a controller run on the leader."""
        self._controllers.append(controller)

    def add_task(self, name: str, run: Callable[[], Awaitable[None]], stage: Stage) -> None:
        """Have a coroutine run from a stage on; one that raises ends the process."""
        self._tasks[stage].append((name, run))

    def stop(self) -> None:
        """Begin the orderly end."""
        self._stopping.set()

    def live(self) -> str | None:
        """Return why this process should be restarted, or None: heartbeat, watches, oldest ready key."""
        now = asyncio.get_running_loop().time()
        if self._beat_at is not None and now - self._beat_at > _BEAT_LIMIT:
            return f"the event loop did not run for {now - self._beat_at:.0f} s"
        for informer in self._informers.values():
            age = informer.age()
            if self._synced and age > _WATCH_LIMIT:
                return f"nothing was heard about {informer.kind} for {age:.0f} s"
        for controller in self._controllers:
            age = controller.queue.oldest_ready_age()
            if self._leads() and age > _KEY_LIMIT:
                return f"a key of {controller.name} has waited for {age:.0f} s"
        return None

    def ready(self) -> str | None:
        """Return why no request should come here, or None."""
        if self._stopping.is_set():
            return "stopping"
        missing = [informer.kind for informer in self._informers.values() if not informer.synced.is_set()]
        return f"not listed yet: {', '.join(missing)}" if missing else None

    async def run(self) -> None:
        """Run everything; return after an orderly end, raise when a part of the process failed."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(self._heartbeat(), name="heartbeat")]
            self._begin(group, running, Stage.START)
            running += [
                group.create_task(informer.run(), name=f"informer-{informer.kind}")
                for informer in self._informers.values()
            ]
            if await self._unless_stopped(self._all_synced()):
                self._begin(group, running, Stage.SYNCED)
                if self._lease is None or await self._unless_stopped(self._lease.acquire()):
                    await self._lead(group, running)
                else:
                    # It may have become ours in the very moment of the end.
                    await self._lease.release()
            for task in reversed(running):
                task.cancel()

    async def _lead(self, group: asyncio.TaskGroup, running: list[asyncio.Task[None]]) -> None:
        """Run the controllers until the end begins; then let them finish and release the lease."""
        holding = None
        if self._lease is not None:
            holding = group.create_task(self._hold(self._lease), name="lease")
            running.append(holding)
        running.append(group.create_task(self._tell_unreadable(), name="unreadable"))
        self._begin(group, running, Stage.LEADING)
        working = [
            group.create_task(controller.run(self._leads), name=controller.name)
            for controller in self._controllers
        ]
        running += working
        await self._stopping.wait()
        for controller in self._controllers:
            controller.queue.close()
        if working:
            _, late = await asyncio.wait(working, timeout=self._grace)
            for task in late:
                _log.warning("controller did not finish in time", controller=task.get_name())
        if self._lease is not None and holding is not None:
            holding.cancel()
            await self._lease.release()

    async def _tell_unreadable(self) -> None:
        """Record an event on every object that cannot be read: its owner learns why nothing happens."""
        recorder = Recorder(self.client, self._lease.name if self._lease else "controller")
        news: asyncio.Queue[Undecodable] = asyncio.Queue()
        for informer in self._informers.values():
            informer.on_unreadable = news.put_nowait
            for bad in informer.store.undecodable.values():
                news.put_nowait(bad)
        while True:
            bad = await news.get()
            text = f"This version cannot read the object, so nothing is done about it: {bad.error}"
            await recorder.event(bad, "Warning", "Undecodable", text)

    async def _hold(self, lease: Lease) -> None:
        try:
            await lease.hold()
        except LeaseLost as error:
            _log.error("stopping at once", err=error)
            self._on_lost(_LOST_EXIT_CODE)
            raise

    def _leads(self) -> bool:
        return self._lease is None or self._lease.held()

    def _begin(self, group: asyncio.TaskGroup, running: list[asyncio.Task[None]], stage: Stage) -> None:
        for name, run in self._tasks[stage]:
            running.append(group.create_task(_as_coroutine(run), name=name))

    async def _all_synced(self) -> None:
        for informer in self._informers.values():
            await informer.synced.wait()
        gc.set_threshold(_GC_THRESHOLD)
        gc.collect()
        gc.freeze()
        self._synced = True
        _log.info("synced", kinds=sorted(informer.kind for informer in self._informers.values()))

    async def _unless_stopped(self, wanted: Awaitable[None]) -> bool:
        """Await something; False when the end began first."""
        work = asyncio.ensure_future(wanted)
        stop = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
                return not self._stopping.is_set()
            return False
        finally:
            work.cancel()
            stop.cancel()
            await asyncio.wait({work, stop})

    async def _heartbeat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _BEAT
            self._beat_at = loop.time()
            await asyncio.sleep(_BEAT)
            _LAG.set(max(0.0, loop.time() - due))


async def _as_coroutine(run: Callable[[], Awaitable[None]]) -> None:
    await run()
