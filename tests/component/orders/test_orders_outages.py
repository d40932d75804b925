"""What an order asks goes away, before it and under it: what runs is left alone, what waits says for what.

The real controller, planner and lookup, each behind something that breaks; nothing is started again.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from aiinference.api.classes import InferenceServiceClass
from aiinference.api.orders import InferenceService
from kubekit.conditions import find
from kubekit.resources import StatefulSet
from tests.kit import faultyfront, lookupworld, plannerprocess
from tests.kit.controlplane import fresh_namespace
from tests.kit.eventually import eventually
from tests.kit.faultyfront import Front
from tests.kit.ordersfaults import Nth, Proxied, objects, proxied, told
from tests.kit.ordersworld import World, answering

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from kubekit.conditions import Condition
    from tests.kit.faultproxy import Request
    from tests.kit.faultyfront import Fault

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="session")]

AWAY = faultyfront.says(503, "<html>no endpoints</html>")
FOR_EVER = 10**6


@dataclass
class System:
    """The controller, and whom it asks."""

    proxied: Proxied
    planner: Front
    lookup: Front

    @contextmanager
    def without_planner(self, fault: Fault = AWAY) -> Iterator[None]:
        """Have the planner's answers spoilt."""
        self.planner.fault = fault
        try:
            yield
        finally:
            self.planner.fault = faultyfront.passed_on

    @contextmanager
    def without_lookup(self, fault: Fault = AWAY) -> Iterator[None]:
        """Have the lookup's answers spoilt."""
        self.lookup.fault = fault
        try:
            yield
        finally:
            self.lookup.fault = faultyfront.passed_on

    @contextmanager
    def without_models(self, status: int) -> Iterator[None]:
        """Have the API server refuse to show models."""
        rule = self.proxied.proxy.answer(status, _reads_model, times=FOR_EVER)
        try:
            yield
        finally:
            rule.times = 0


def _reads_model(request: Request) -> bool:
    return request.method == "GET" and "/models/" in request.path


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def system(control_plane: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    folder = tmp_path_factory.mktemp("outages")
    token = folder / "catalog-token"
    with fresh_namespace(control_plane) as namespace:
        async with (
            lookupworld.running(control_plane, _made(folder / "lookup"), "d8-ai-models") as models,
            plannerprocess.running(control_plane, _made(folder / "planner")) as planner,
            Front(models.api.url, models.certificate.client(), None) as before_lookup,
            Front(planner.settings.base_url, planner.trusted, None) as before_planner,
        ):
            token.write_text(models.token("inference"))
            planner.show(plannerprocess.CONTROLLER)
            environ = {
                "AI_INFERENCE_CATALOG_BASE_URL": before_lookup.url,
                "AI_INFERENCE_CATALOG_TOKEN_FILE": str(token),
                "AI_INFERENCE_PLANNER_URL": before_planner.url,
                "AI_INFERENCE_PLANNER_TOKEN_FILE": str(planner.settings.token_file),
            }
            async with proxied(control_plane, namespace, folder, **environ) as made:
                yield System(made, before_planner, before_lookup)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest_asyncio.fixture(loop_scope="session")
async def world(system: System, namespace: str) -> AsyncIterator[World]:
    """Give a namespace with a model and a class whose orders are planned by the planner."""
    one = World(system.proxied.client, system.proxied.controller, namespace, f"class-{namespace}")
    await one.model("qwen")
    exposure = {"type": "ClusterLocal", "authentication": "Token"}
    await one.make_class(one.klass, exposurePolicy=exposure, acceleratorPolicy={"fallback": "CPU"})
    try:
        yield one
    finally:
        await one.client.delete(InferenceServiceClass, one.klass)


def condition(order: InferenceService, type_: str) -> Condition:
    found = find(order.status.conditions, type_) if order.status else None
    assert found is not None
    return found


async def waits(world: World, name: str, reason: str, words: str) -> InferenceService:
    """Wait until an order says what it waits for, and return it."""

    async def look() -> InferenceService | None:
        found = await world.get(name)
        ready = find(found.status.conditions, "Ready") if found.status else None
        return found if ready and ready.reason == reason and words in ready.message else None

    found: InferenceService = await eventually(look)
    return found


async def look_again(world: World, name: str, asked: Front) -> None:
    """Have an order looked at, and wait until that has asked somebody."""
    asked.met.clear()
    body = {"metadata": {"annotations": {"tests/looked-at": str(len(asked.tokens))}}}
    await world.client.patch(InferenceService, name, body, namespace=world.namespace)
    await asked.met.wait()


async def version(world: World, name: str) -> str:
    found = await world.workload(name)
    assert found is not None
    return found.metadata.resource_version


async def test_an_order_waits_for_the_planner_and_goes_on_by_itself(system: System, world: World) -> None:
    with system.without_planner(faultyfront.cut):
        await world.order("chat", "qwen")
        waiting = await waits(world, "chat", "PlannerUnavailable", "is asked for again")
        assert condition(waiting, "ModelResolved").status == "True"
        assert condition(waiting, "Planned").reason == "PlannerUnavailable"
        assert await objects(world.client, world.namespace) == {}
    planned = await world.says("chat", "Planned", "LaunchPlanCalculated")
    assert planned.status is not None
    assert planned.status.resolved is not None
    assert planned.status.resolved.device_class == "cpu"
    await world.says("chat", "WorkloadReady", "Unschedulable")


@pytest.mark.parametrize("refusal", [403, 503])
async def test_what_answers_outlives_all_that_it_once_asked(
    system: System, world: World, refusal: int
) -> None:
    await world.order("chat", "qwen")
    async with answering() as runtime, told(world.client, world.namespace) as said:
        await world.says("chat", "WorkloadReady", "Unschedulable")
        await world.run("chat", runtime)
        before = await world.says("chat", "Ready", "Ready")
        await world.says("chat", "Planned", "LaunchPlanCalculated")
        there = await version(world, "chat")
        with system.without_planner(), system.without_lookup(), system.without_models(refusal):
            touched = Nth(world.namespace, FOR_EVER)
            rule = system.proxied.proxy.hold(touched)
            await look_again(world, "chat", system.lookup)
            await world.order("later", "qwen")
            waiting = await waits(world, "later", "CatalogUnavailable", "Kubernetes: ")
            assert "Rest: " in condition(waiting, "Ready").message
            assert not [one for one in await objects(world.client, world.namespace) if "later" in one]
            rule.times = 0
            written = {write.partition("/")[0] for write in touched.seen}
            assert written <= {"PATCH inferenceservices", "POST events"}
        with system.without_planner():
            await look_again(world, "chat", system.planner)
            await waits(world, "later", "PlannerUnavailable", "is asked for again")
        await world.says("later", "WorkloadReady", "Unschedulable")
        after = await world.get("chat")
        assert after.status is not None
        assert before.status is not None
        for known in before.status.conditions:
            assert condition(after, known.type).last_transition_time == known.last_transition_time
        assert await version(world, "chat") == there
        assert all(condition(one, "Ready").status == "True" for one in said if _was(one, before))


def _was(order: InferenceService, earlier: InferenceService) -> bool:
    """Tell whether this is a later state of the same order."""
    mine, other = order.metadata, earlier.metadata
    return mine.uid == other.uid and int(mine.resource_version) > int(other.resource_version)


async def test_without_a_lookup_the_object_is_read_in_the_same_turn(system: System, world: World) -> None:
    asked = len(system.lookup.tokens)
    async with told(world.client, world.namespace) as said:
        with system.without_lookup(faultyfront.cut):
            await world.order("chat", "qwen")
            await world.says("chat", "WorkloadReady", "Unschedulable")
        assert len(system.lookup.tokens) > asked
        assert "cannot be asked" not in str([one.status for one in said])
    read = len([one for one in system.proxied.proxy.requests if _reads_model(one)])
    await look_again(world, "chat", system.planner)
    assert len([one for one in system.proxied.proxy.requests if _reads_model(one)]) == read


async def test_a_change_that_a_dead_watch_kept_back_is_seen_with_the_next_list(
    system: System, world: World
) -> None:
    await world.order("chat", "qwen")
    await world.says("chat", "WorkloadReady", "Unschedulable")
    proxy = system.proxied.proxy
    proxy.silence()
    await world.client.patch(StatefulSet, "chat", {"spec": {"replicas": 3}}, namespace=world.namespace)
    await world.order("unseen", "qwen")
    await proxy.inject_gone()
    await world.says("unseen", "WorkloadReady", "Unschedulable")

    async def put_right() -> bool:
        found = await world.workload("chat")
        return found is not None and found.spec.replicas == 1

    await eventually(put_right)


async def test_the_api_server_goes_and_comes_back(system: System, world: World) -> None:
    await world.order("chat", "qwen")
    controller, proxy = system.proxied.controller, system.proxied.proxy
    assert controller.process is not None
    process = controller.process.pid
    async with answering() as runtime, told(world.client, world.namespace) as said:
        await world.says("chat", "WorkloadReady", "Unschedulable")
        await world.run("chat", runtime)
        before = await world.says("chat", "Ready", "Ready")
        await world.says("chat", "RuntimeCurrent", "RuntimeCurrent")
        there = await version(world, "chat")
        lease = proxy.answer(503, lambda request: "/leases/" in request.path, times=2)
        gone = proxy.answer(503, lambda _: True, times=FOR_EVER)
        proxy.cut()
        await world.order("meanwhile", "qwen")

        async def missed_twice() -> bool:
            return lease.times == 0

        await eventually(missed_twice)
        gone.times = 0
        await world.says("meanwhile", "WorkloadReady", "Unschedulable")
        assert controller.process.returncode is None
        assert controller.process.pid == process
        assert await version(world, "chat") == there
        assert all(condition(one, "Ready").status == "True" for one in said if _was(one, before))


async def test_a_planner_that_hangs_keeps_no_other_order_waiting(system: System, world: World) -> None:
    plain = f"plain-{world.namespace}"
    await world.make_class(plain, exposurePolicy={"type": "ClusterLocal"})
    waiting = [f"waits-{number}" for number in range(10)]
    try:
        with system.without_planner(faultyfront.silent):
            for name in waiting:
                await world.order(name, "qwen")
            await world.says(waiting[-1], "Planned", "Pending")
            await world.says(waiting[-1], "Planned", "PlannerUnavailable")
            await world.order("chat", "qwen", plain)
            await world.says("chat", "WorkloadReady", "Unschedulable")
            assert await world.workload(waiting[-1]) is None
        await world.says(waiting[-1], "WorkloadReady", "Unschedulable")
    finally:
        await world.client.delete(InferenceServiceClass, plain)
