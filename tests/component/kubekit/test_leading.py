"""Two replicas of a process against a real API server: one leads, the other takes over, never both."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from kubekit.client import Client, connect
from kubekit.controller import Controller, Done
from kubekit.errors import NotFound
from kubekit.lease import Lease, LeaseLost, LeaseTiming
from kubekit.manager import Manager, Stage
from kubekit.queue import KeyedQueue
from kubekit.resources import ConfigMap, Event, Resource, resource
from kubekit.resources.control import Lease as LeaseRecord
from tests.kit.eventually import eventually
from tests.kit.faultproxy import FaultProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.cluster

QUICK = LeaseTiming(duration=2, renew_within=1, step=0.2, request=0.5)

HOLDER = """
import asyncio, sys
from pathlib import Path
from kubekit.client import connect
from kubekit.lease import Lease, LeaseLost, LeaseTiming
from opskit import logging

logging.configure("holder")

async def main():
    async with connect(Path(sys.argv[1])) as client:
        timing = LeaseTiming(duration=2, renew_within=1, step=0.2, request=0.5)
        lease = Lease(client, sys.argv[2], "leader", "holder", timing=timing)
        await lease.acquire()
        print(lease.identity, flush=True)
        try:
            await lease.hold()
        except LeaseLost:
            sys.exit(70)

asyncio.run(main())
"""


@pytest.fixture
async def direct(control_plane: Path) -> AsyncIterator[Client]:
    async with connect(control_plane) as client:
        yield client


async def holder_of(client: Client, namespace: str) -> str | None:
    return (await client.get(LeaseRecord, "leader", namespace)).spec.holder_identity


def candidate(client: Client, namespace: str, name: str) -> Lease:
    return Lease(client, namespace, "leader", name, timing=QUICK)


async def test_a_released_lease_changes_hands_at_once(direct: Client, namespace: str) -> None:
    first, second = candidate(direct, namespace, "a"), candidate(direct, namespace, "b")
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    await first.release()
    async with asyncio.timeout(10):
        await waiting
    assert await holder_of(direct, namespace) == second.identity
    record = await direct.get(LeaseRecord, "leader", namespace)
    assert record.spec.lease_transitions == 1
    assert record.spec.renew_time is not None


async def test_a_frozen_holder_is_replaced_and_ends_when_it_thaws(
    direct: Client, control_plane: Path, namespace: str
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        HOLDER,
        str(control_plane),
        namespace,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": "src"},
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(20):
            frozen = (await process.stdout.readline()).decode().strip()
        assert await holder_of(direct, namespace) == frozen
        process.send_signal(signal.SIGSTOP)
        second = candidate(direct, namespace, "second")
        async with asyncio.timeout(20):
            await second.acquire()
        holding = asyncio.create_task(second.hold())
        process.send_signal(signal.SIGCONT)
        async with asyncio.timeout(20):
            assert await process.wait() == 70
        assert await holder_of(direct, namespace) == second.identity
        assert second.held()
        holding.cancel()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def test_a_holder_that_lost_the_api_server_gives_up_first(
    direct: Client, control_plane: Path, namespace: str
) -> None:
    async with FaultProxy(control_plane) as proxy, proxy.client() as through:
        first, second = candidate(through, namespace, "a"), candidate(direct, namespace, "b")
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        waiting = asyncio.create_task(second.acquire())
        proxy.answer(503, lambda _: True, times=1000)
        async with asyncio.timeout(20):
            with pytest.raises(LeaseLost):
                await holding
            assert not waiting.done()
            await waiting


class Replica:
    """A manager with one informer and one controller that notes what it reconciled."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self.exits: list[int] = []
        self.lease = candidate(client, namespace, name)
        self.manager = Manager(client, lease=self.lease, grace=10, on_lost=self.exits.append)
        self.informer = self.manager.informer(ConfigMap, namespace=namespace)
        self.queue: KeyedQueue[tuple[str, str]] = KeyedQueue(f"test-{name}")
        self.informer.feed(self.queue, lambda change: [change.key])
        self.manager.add_controller(Controller(name, self.queue, self._reconcile))
        self.serving = asyncio.Event()
        self.manager.add_task("server", self._serve, Stage.SYNCED)
        self.done: set[str] = set()
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def _reconcile(self, key: tuple[str, str]) -> Done:
        self.begun.set()
        await self.go_on.wait()
        self.done.add(key[1])
        return Done()

    async def _serve(self) -> None:
        self.serving.set()
        await asyncio.Event().wait()


@asynccontextmanager
async def running(replica: Replica) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(replica.manager.run())
    try:
        yield task
    finally:
        replica.manager.stop()
        replica.go_on.set()
        with suppress(BaseExceptionGroup):
            async with asyncio.timeout(20):
                await task


async def test_only_the_leader_reconciles_and_both_serve(direct: Client, namespace: str) -> None:
    first, second = Replica(direct, namespace, "a"), Replica(direct, namespace, "b")
    assert first.manager.ready() == "not listed yet: ConfigMap"
    async with running(first), asyncio.timeout(20):
        await first.begun.wait()
        async with running(second):
            await second.serving.wait()
            assert first.manager.ready() is None
            assert second.manager.ready() is None
            assert first.manager.live() is None
            assert not second.begun.is_set()
            first.manager.stop()
            assert first.manager.ready() == "stopping"
            await second.begun.wait()


async def test_the_orderly_end_finishes_what_is_begun_and_releases(direct: Client, namespace: str) -> None:
    replica = Replica(direct, namespace, "a")
    replica.go_on.clear()
    async with running(replica) as task, asyncio.timeout(20):
        await replica.begun.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0)
        assert not task.done()
        replica.go_on.set()
        await task
    assert replica.done == {"kube-root-ca.crt"}
    assert await holder_of(direct, namespace) == ""
    assert replica.exits == []


async def test_a_lost_lease_ends_the_process(direct: Client, namespace: str) -> None:
    replica = Replica(direct, namespace, "a")
    async with running(replica) as task, asyncio.timeout(20):
        await replica.begun.wait()
        await direct.patch(LeaseRecord, "leader", {"spec": {"holderIdentity": "thief"}}, namespace=namespace)
        with pytest.raises(BaseExceptionGroup) as failure:
            await task
    assert failure.group_contains(LeaseLost)
    assert replica.exits == [70]


@resource("v1", "ConfigMap", "configmaps")
class NumberMap(Resource, frozen=True, kw_only=True):
    """A view that fits no ConfigMap with text in it."""

    data: dict[str, int]


async def test_an_object_that_cannot_be_read_gets_an_event(direct: Client, namespace: str) -> None:
    manager = Manager(direct)
    manager.informer(NumberMap, namespace=namespace)
    running = asyncio.create_task(manager.run())

    async def told() -> list[str]:
        events = await direct.list(Event, namespace)
        return [event.message for event in events if event.reason == "Undecodable"]

    (message,) = await eventually(told)
    assert "cannot read" in message
    assert "Expected `int`" in message
    manager.stop()
    await running


async def test_the_end_may_come_while_waiting_for_the_lease(direct: Client, namespace: str) -> None:
    holder = candidate(direct, namespace, "holder")
    await holder.acquire()
    holding = asyncio.create_task(holder.hold())
    replica = Replica(direct, namespace, "b")
    async with running(replica) as task, asyncio.timeout(20):
        await replica.serving.wait()
        replica.manager.stop()
        await task
    assert await holder_of(direct, namespace) == holder.identity
    holding.cancel()


async def test_a_deletion_with_the_uid_of_an_earlier_life_is_refused(direct: Client, namespace: str) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace}}
    old = await direct.create(manifest)
    assert await direct.delete(ConfigMap, "a", namespace, uid=old["metadata"]["uid"])
    await direct.create(manifest)
    with pytest.raises(Exception, match="precondition") as refused:
        await direct.delete(ConfigMap, "a", namespace, uid=old["metadata"]["uid"])
    assert type(refused.value).__name__ == "Conflict"
    assert await direct.find(ConfigMap, "a", namespace) is not None
    with pytest.raises(NotFound):
        await direct.get(ConfigMap, "b", namespace)
