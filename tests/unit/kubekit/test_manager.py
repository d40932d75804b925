from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from kubekit.controller import Controller, Done
from kubekit.lease import LeaseLost
from kubekit.manager import Manager, Stage
from kubekit.queue import KeyedQueue
from kubekit.resources import ConfigMap
from kubekit.watch import Relisted

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.client import Client
    from kubekit.lease import Lease


class NoClient:
    """An API server that never answers."""

    async def page(self, *_: object, **__: object) -> None:
        await asyncio.Event().wait()


def manager() -> Manager:
    return Manager(cast("Client", NoClient()))


async def never(_key: str) -> Done:
    await asyncio.Event().wait()
    return Done()


@pytest.mark.looptime
async def test_a_process_that_waits_for_its_first_list_is_alive_but_not_ready() -> None:
    made = manager()
    made.informer(ConfigMap)
    running = asyncio.create_task(made.run())
    await asyncio.sleep(5000)
    assert made.live() is None
    assert made.ready() == "not listed yet: ConfigMap"
    made.stop()
    await running


@pytest.mark.looptime
async def test_a_watch_that_hears_nothing_for_long_is_not_alive() -> None:
    made = manager()
    informer = made.informer(ConfigMap)
    running = asyncio.create_task(made.run())
    informer._take(Relisted([]))
    informer._watcher._heard()
    await asyncio.sleep(899)
    assert made.live() is None
    await asyncio.sleep(2)
    assert made.live() == "nothing was heard about ConfigMap for 901 s"
    made.stop()
    await running


@pytest.mark.looptime
async def test_a_key_that_nobody_takes_is_not_life() -> None:
    made = manager()
    queue: KeyedQueue[str] = KeyedQueue("stuck")
    made.add_controller(Controller("stuck", queue, never, workers=1, time_limit=10_000))
    running = asyncio.create_task(made.run())
    queue.add("a")
    queue.add("b")
    await asyncio.sleep(599)
    assert made.live() is None
    await asyncio.sleep(2)
    assert made.live() == "a key of stuck has waited for 601 s"
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


class BrittleLease:
    """A lease that is there at once, and lost when a test says so."""

    name = "brittle"

    def __init__(self) -> None:
        self.lost = asyncio.Event()
        self.released = False

    def held(self) -> bool:
        return not self.lost.is_set()

    async def acquire(self) -> None:
        return

    async def hold(self) -> None:
        await self.lost.wait()
        raise LeaseLost("somebody else leads")

    async def release(self) -> None:
        self.released = True


@pytest.mark.looptime
async def test_a_lease_lost_while_the_last_reconciles_finish_ends_the_process_at_once() -> None:
    lease, codes, queue = BrittleLease(), list[int](), KeyedQueue[str]("slow")
    made = Manager(cast("Client", NoClient()), lease=cast("Lease", lease), grace=1000, on_lost=codes.append)
    made.add_controller(Controller("slow", queue, never, workers=1, time_limit=10_000))
    running = asyncio.create_task(made.run())
    queue.add("a")
    await asyncio.sleep(1)
    made.stop()
    await asyncio.sleep(1)
    lease.lost.set()
    with pytest.raises(ExceptionGroup):
        await running
    assert codes == [70]
    assert not lease.released
    assert asyncio.get_running_loop().time() < 100


@pytest.mark.looptime
async def test_an_orderly_end_releases_the_lease() -> None:
    lease = BrittleLease()
    made = Manager(cast("Client", NoClient()), lease=cast("Lease", lease))
    running = asyncio.create_task(made.run())
    await asyncio.sleep(1)
    made.stop()
    await running
    assert lease.released


class LeaseAtTheEnd(BrittleLease):
    """A lease that becomes ours in the very moment in which the process is told to end."""

    def __init__(self) -> None:
        super().__init__()
        self.stop: Callable[[], None] = self.lost.set

    async def acquire(self) -> None:
        self.stop()


@pytest.mark.looptime
async def test_an_end_in_the_moment_of_taking_the_lease_releases_it() -> None:
    lease = LeaseAtTheEnd()
    made = Manager(cast("Client", NoClient()), lease=cast("Lease", lease))
    lease.stop = made.stop
    await made.run()
    assert lease.released


@pytest.mark.looptime
async def test_a_loop_that_was_blocked_is_not_alive() -> None:
    made = manager()
    made._beat_at = asyncio.get_running_loop().time()
    await asyncio.sleep(31)
    assert made.live() == "the event loop did not run for 31 s"


@pytest.mark.looptime
async def test_stages_begin_in_order_and_all_end() -> None:
    made = manager()
    informer = made.informer(ConfigMap)
    begun: list[str] = []

    async def serve(name: str) -> None:
        begun.append(name)
        await asyncio.Event().wait()

    for stage in reversed(Stage):
        made.add_task(stage.name, lambda name=stage.name: serve(name), stage)  # type: ignore[misc]
    running = asyncio.create_task(made.run())
    await asyncio.sleep(1)
    assert begun == ["START"]
    informer._take(Relisted([]))
    await asyncio.sleep(1)
    assert begun == ["START", "SYNCED", "LEADING"]
    made.stop()
    await running


@pytest.mark.looptime
async def test_a_task_that_fails_ends_the_process() -> None:
    made = manager()

    async def fail() -> None:
        raise RuntimeError("no port")

    made.add_task("server", fail, Stage.START)
    with pytest.raises(ExceptionGroup) as failed:
        await made.run()
    assert failed.group_contains(RuntimeError, match="no port")


async def test_one_kind_has_one_informer_per_view_namespace_and_selector() -> None:
    made = manager()
    one = made.informer(ConfigMap, namespace="a", selectors={"labelSelector": "x"})
    assert made.informer(ConfigMap, namespace="a", selectors={"labelSelector": "x"}) is one
    assert made.informer(ConfigMap, namespace="a") is not one
    assert made.informer(ConfigMap) is not made.informer(ConfigMap, namespace="a")
