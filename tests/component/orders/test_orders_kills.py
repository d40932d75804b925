"""The controller is killed between any two steps of one order: what comes out is as if nothing had happened.

A write is executed and the process killed before it learns of that; or it is killed while the write is on
its way, which arrives when another process has finished all the work. The former for an order's first write,
its second, and so on, until an order gets through with fewer writes than that; what costs a start each and
tells little more, for some of them.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from aiinference.api.classes import InferenceServiceClass
from aiinference.api.orders import InferenceService
from kubekit.conditions import find
from kubekit.errors import Conflict, NotFound
from kubekit.informer import Informer
from kubekit.resources import Pod, Secret
from tests.kit.controlplane import fresh_namespace
from tests.kit.eventually import STEP, eventually
from tests.kit.ordersfaults import Nth, Proxied, objects, proxied
from tests.kit.ordersworld import Runtime, World, answering

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kubekit.client import Client
    from kubekit.queue import Priority
    from kubekit.store import Change
    from tests.kit.faultproxy import Request, Rule

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

ORDER = "chat"
HOLDS = ("ClassResolved", "ModelResolved", "RuntimeCurrent", "WorkloadReady", "Ready")
WHOLE = {
    *("secrets/chat-auth", "services/chat", "statefulsets/chat", "networkpolicies/chat", "ingresses/chat"),
    *("poddisruptionbudgets/chat", "roles/chat-auth-reader", "pods/chat-0"),
}
#: the garbage collector learns of a new kind of owners within half a minute
COLLECTED = 90.0
#: what is said first, the key, six objects, what is said of Pods and of the first answer
LEAST_WRITES = 10


@dataclass
class Story:
    """All that an order has said of itself, and what was wrong with it at that moment."""

    client: Client
    said: list[InferenceService] = field(default_factory=list)
    untrue: list[str] = field(default_factory=list)
    _news: asyncio.Queue[InferenceService] = field(default_factory=asyncio.Queue)

    def hear(self, change: Change[InferenceService], _priority: Priority) -> None:
        """Take one state of the order."""
        if change.after is not None and change.after.status is not None:
            self._news.put_nowait(change.after)

    async def judge(self) -> None:
        """Compare what is said with what is there: nothing of it is ever taken back here."""
        while True:
            order = await self._news.get()
            self.said.append(order)
            status, place = order.status, order.metadata.namespace
            assert status is not None
            there = await objects(self.client, place)
            if status.phase == "Failed":
                self.untrue.append(f"Failed: {status.conditions}")
            made = find(status.conditions, "RuntimeCurrent") is not None
            if made and not {f"secrets/{status.auth_secret_name}", f"statefulsets/{ORDER}"} <= set(there):
                self.untrue.append(f"replicas, or their key, that are not there: {status}")
            if _holds(order, "WorkloadReady") and not _runs(there):
                self.untrue.append(f"replicas that do not run: {status}")

    @property
    def turns(self) -> list[bool]:
        """Return how Ready has changed."""
        flags = [_holds(order, "Ready") for order in self.said]
        return [flag for before, flag in zip([None, *flags], flags, strict=False) if flag is not before]


@dataclass
class Disturbed:
    """A namespace with a model, a class with all that an order can have, and a runtime for its Pods."""

    world: World
    system: Proxied
    runtime: Runtime

    @asynccontextmanager
    async def kubelet(self) -> AsyncIterator[None]:
        """Have every Pod of the order run as soon as it is there."""

        async def play() -> None:
            while True:
                await asyncio.sleep(STEP)
                found = await self.world.client.find(Pod, f"{ORDER}-0", self.world.namespace)
                if found is not None and not found.status.pod_ip and not found.metadata.deleting:
                    with suppress(NotFound, Conflict):
                        await self.world.run(ORDER, self.runtime)

        task = asyncio.create_task(play())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @asynccontextmanager
    async def story(self) -> AsyncIterator[Story]:
        """Write down what the order says; at the end all of it has to have been true."""
        story = Story(self.world.client)
        informer = Informer(self.world.client, InferenceService, namespace=self.world.namespace)
        informer.subscribe(story.hear)
        tasks = [asyncio.create_task(one) for one in (informer.run(), story.judge())]
        try:
            yield story
            await eventually(lambda: _is_told(story))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert story.untrue == []
        assert story.turns == [False, True]

    async def assembled(self) -> dict[str, dict[str, Any]]:
        """Return the order's objects once it is Ready and everything holds."""
        await self.world.says(ORDER, "Ready", "Ready")

        async def whole() -> bool:
            order = await self.world.get(ORDER)
            return all(_holds(order, one) for one in HOLDS)

        await eventually(whole)
        return await objects(self.world.client, self.world.namespace)

    async def remove(self) -> None:
        """Delete the order and wait until nothing of it is left."""
        await self.world.client.delete(InferenceService, ORDER, self.world.namespace)
        left: list[str] = []

        async def empty() -> bool:
            left[:] = await objects(self.world.client, self.world.namespace)
            return not left

        try:
            await eventually(empty, within=COLLECTED)
        except AssertionError:
            raise AssertionError(f"left of a deleted order: {left}") from None

    async def settled(self) -> None:
        """Wait until there is one of everything, and all of it belongs to the order of now."""
        uid = (await self.world.get(ORDER)).metadata.uid

        async def look() -> bool:
            there = await self.assembled()
            owners = {one["uid"] for item in there.values() for one in item["metadata"]["ownerReferences"]}
            return owners == {uid, there.get("statefulsets/chat", {}).get("metadata", {}).get("uid")}

        await eventually(look)
        _once(await self.assembled(), uid)

    async def reaches(self, rule: Rule) -> bool:
        """Wait for the write that something happens at; False when the order gets through without it."""

        async def look() -> str | None:
            if rule.met.is_set():
                return "met"
            order = await self.world.get(ORDER)
            return "ready" if all(_holds(order, one) for one in HOLDS) else None

        if await eventually(look) == "met":
            return True
        rule.times = 0
        return False


def _holds(order: InferenceService, type_: str) -> bool:
    found = find(order.status.conditions, type_) if order.status else None
    return found is not None and found.status == "True"


def _runs(there: dict[str, dict[str, Any]]) -> bool:
    return bool(there.get(f"pods/{ORDER}-0", {}).get("status", {}).get("podIP"))


async def _is_told(story: Story) -> bool:
    return bool(story.said) and _holds(story.said[-1], "Ready")


def _same(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> None:
    """Check that whatever was there at the kill is still there, and the key the same."""
    for name, item in before.items():
        assert after[name]["metadata"]["uid"] == item["metadata"]["uid"], name
    for name in ("secrets/chat-auth",):
        if name in before:
            assert after[name]["data"] == before[name]["data"]


def _once(there: dict[str, dict[str, Any]], uid: str) -> None:
    """Check that there is one of everything, the order's, and that it was started once."""
    (revision,) = (name for name in there if name.startswith("controllerrevisions/"))
    assert set(there) - {revision} == WHOLE
    workload = there["statefulsets/chat"]
    assert workload["metadata"]["generation"] == 1
    assert workload["status"]["currentRevision"] == workload["status"]["updateRevision"]
    assert set(there["secrets/chat-auth"]["data"]) == {"token"}
    for name, item in there.items():
        wanted = workload["metadata"]["uid"] if name.startswith(("pods/", "controllerrevisions/")) else uid
        assert [owner["uid"] for owner in item["metadata"]["ownerReferences"]] == [wanted], name


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def system(control_plane: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxied]:
    with fresh_namespace(control_plane) as namespace:
        async with proxied(control_plane, namespace, tmp_path_factory.mktemp("kills")) as made:
            yield made


@pytest_asyncio.fixture(loop_scope="session")
async def disturbed(system: Proxied, namespace: str) -> AsyncIterator[Disturbed]:
    world = World(system.client, system.controller, namespace, f"class-{namespace}")
    await world.model("qwen")
    await world.make_class(world.klass, exposurePolicy={"type": "External", "authentication": "Token"})
    try:
        async with answering() as runtime:
            yield Disturbed(world, system, runtime)
    finally:
        await world.client.delete(InferenceServiceClass, world.klass)


async def test_killed_when_a_write_is_done_and_its_answer_not_yet_there(disturbed: Disturbed) -> None:
    world, system = disturbed.world, disturbed.system
    for number in count(1):
        at = Nth(world.namespace, number)
        rule = system.proxy.lose(at, then=system.kill)
        async with disturbed.story(), disturbed.kubelet():
            await world.order(ORDER, "qwen")
            if killed := await disturbed.reaches(rule):
                await rule.done.wait()
                before = await objects(system.client, world.namespace)
                await system.controller.start()
                _same(before, await disturbed.assembled())
            _once(await disturbed.assembled(), (await world.get(ORDER)).metadata.uid)
        await disturbed.remove()
        if not killed:
            assert number > LEAST_WRITES, at.seen
            return


async def test_killed_while_a_write_is_on_its_way_that_comes_when_all_is_done(disturbed: Disturbed) -> None:
    world, system = disturbed.world, disturbed.system
    for number in count(1, 2):
        rule = system.proxy.hold(Nth(world.namespace, number))
        async with disturbed.story(), disturbed.kubelet():
            await world.order(ORDER, "qwen")
            if killed := await disturbed.reaches(rule):
                await system.kill()
                await system.controller.start()
                before = await disturbed.assembled()
                system.proxy.release(rule)
                await rule.done.wait()
                _same(before, await disturbed.assembled())
            _once(await disturbed.assembled(), (await world.get(ORDER)).metadata.uid)
        await disturbed.remove()
        if not killed:
            return


async def test_deleted_between_two_steps_and_ordered_again_at_once(disturbed: Disturbed) -> None:
    world, system = disturbed.world, disturbed.system
    for number in count(1, 3):
        rule = system.proxy.hold(Nth(world.namespace, number))
        async with disturbed.kubelet():
            await world.order(ORDER, "qwen")
            killed = await disturbed.reaches(rule)
            await world.client.delete(InferenceService, ORDER, world.namespace)
            if killed:
                await system.kill()
                system.proxy.release(rule)
                await rule.done.wait()
            await world.order(ORDER, "qwen")
            if killed:
                await system.controller.start()
            await disturbed.settled()
        await disturbed.remove()
        if not killed:
            return


@pytest.mark.parametrize("late", [False, True], ids=["answer lost", "write late"])
async def test_killed_while_the_key_is_replaced(disturbed: Disturbed, late: bool) -> None:  # noqa: FBT001
    world, system = disturbed.world, disturbed.system
    async with disturbed.kubelet():
        await world.order(ORDER, "qwen")
        await disturbed.assembled()
        first = await world.token(ORDER)
        rule = (
            system.proxy.hold(_replaces_key) if late else system.proxy.lose(_replaces_key, then=system.kill)
        )
        body = {"metadata": {"annotations": {"ai.deckhouse.io/rotate-token": "now"}}}
        await world.client.patch(InferenceService, ORDER, body, namespace=world.namespace)
        await (rule.met if late else rule.done).wait()
        if late:
            await system.kill()
        applied = len(system.proxy.requests)
        await system.controller.start()

        async def looked_at() -> bool:
            return any(one.path.endswith(f"/ingresses/{ORDER}") for one in system.proxy.requests[applied:])

        await eventually(looked_at)
        keys = (await world.client.get(Secret, f"{ORDER}-auth", world.namespace)).data
        assert keys["previousToken"].decode() == first
        assert keys["token"] != keys["previousToken"]
        if late:
            system.proxy.release(rule)
            await rule.done.wait()
        there = await disturbed.assembled()
        assert (await world.client.get(Secret, f"{ORDER}-auth", world.namespace)).data == keys
        assert there["statefulsets/chat"]["metadata"]["generation"] == 1


def _replaces_key(request: Request) -> bool:
    return request.method == "PATCH" and request.path.endswith(f"/secrets/{ORDER}-auth")
