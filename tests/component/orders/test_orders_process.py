"""Orders from the first condition to Ready, by the real controller with the rights of the chart."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from aiinference.api.classes import InferenceServiceClass
from aiinference.api.orders import InferenceService
from aiinference.orders.ingresses import Ingress
from aimodels.api.model import Model
from kubekit.conditions import find
from kubekit.errors import NotFound
from kubekit.resources import Event, Pod, Secret, StatefulSet
from tests.kit.eventually import eventually
from tests.kit.ordersworld import answering
from tests.kit.quota import limited, unlimited

if TYPE_CHECKING:
    from tests.kit.ordersworld import World

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="session")]


async def test_an_order_becomes_ready_and_stays_so_over_a_killed_controller(world: World) -> None:
    await world.model("qwen")
    await world.order("chat", "qwen")
    begun = await world.says("chat", "WorkloadReady", "Unschedulable")
    assert begun.status is not None
    assert begun.status.model is not None
    assert begun.status.model.endpoint_type == "Chat"
    assert begun.status.auth_secret_name == "chat-auth"
    assert begun.status.endpoint is not None
    assert begun.status.endpoint.in_cluster_url == f"http://chat.{world.namespace}.svc"
    assert begun.status.constraints is not None
    assert begun.status.constraints.model_scope == "Namespaced"
    assert begun.status.resolved is None
    assert begun.status.phase == "Pending"
    async with answering() as runtime:
        await world.run("chat", runtime)
        ready = await world.says("chat", "Ready", "Ready")
        assert ready.status is not None
        assert ready.status.phase == "Ready"
        assert ready.status.startup is not None
        assert ready.status.startup.ready_time is not None
        assert runtime.keys[0] == f"Bearer {await world.token('chat')}"
        before = await world.workload("chat")
        assert before is not None
        await world.controller.end(signal.SIGKILL)
        await world.controller.start()
        asked = len(runtime.keys)

        async def asked_again() -> bool:
            return len(runtime.keys) > asked

        await eventually(asked_again)
        after = await world.workload("chat")
        assert after is not None
        assert after.metadata.generation == before.metadata.generation
        again = await world.says("chat", "Ready", "Ready")
        assert again.status is not None
        known, now = (find(one.status.conditions, "Ready") for one in (ready, again) if one.status)
        assert known is not None
        assert now is not None
        assert now.last_transition_time == known.last_transition_time


async def test_nothing_is_made_before_the_model_is_ready(world: World) -> None:
    await world.order("early", "later")
    await world.says("early", "ModelResolved", "ModelNotFound")
    await world.model("later", ready=False)
    waiting = await world.says("early", "ModelResolved", "ModelNotReady")
    assert waiting.status is not None
    assert waiting.status.phase == "Pending"
    assert await world.workload("early") is None
    await world.publish("later")
    await world.says("early", "ModelResolved", "ModelResolved")
    await world.says("early", "WorkloadReady", "Unschedulable")


async def test_a_model_that_goes_does_not_take_what_runs_along(world: World) -> None:
    await world.model("qwen")
    await world.order("chat", "qwen")
    async with answering() as runtime:
        await world.says("chat", "WorkloadReady", "Unschedulable")
        await world.run("chat", runtime)
        await world.says("chat", "Ready", "Ready")
        before = await world.workload("chat")
        await world.client.delete(Model, "qwen", world.namespace)
        # A change of the order has it looked at again.
        body = {"metadata": {"annotations": {"ai.deckhouse.io/upgrade": "1"}}}
        await world.client.patch(InferenceService, "chat", body, namespace=world.namespace)
        gone = await world.says("chat", "ModelResolved", "ModelNotFound")
        assert gone.status is not None
        assert gone.status.phase == "Ready"
        assert gone.status.auth_secret_name == "chat-auth"
        after = await world.workload("chat")
        assert before is not None
        assert after is not None
        assert after.metadata.generation == before.metadata.generation


async def test_a_class_that_is_missing_closed_or_made_later(world: World) -> None:
    name = f"late-{world.namespace}"
    await world.model("qwen")
    await world.order("chat", "qwen", name)
    missing = await world.says("chat", "ClassResolved", "ClassNotFound")
    assert missing.status is not None
    told = find(missing.status.conditions, "ClassResolved")
    assert told is not None
    assert world.klass in told.message
    closed = {"allowedNamespaces": ["elsewhere"]}
    try:
        await world.make_class(name, admissionPolicy=closed, exposurePolicy={"type": "ClusterLocal"})
        await world.says("chat", "ClassResolved", "NamespaceNotAllowed")
        body = {"spec": {"admissionPolicy": {"allowedNamespaces": ["*"]}}}
        await world.client.patch(InferenceServiceClass, name, body)
        await world.says("chat", "WorkloadReady", "Unschedulable")
    finally:
        await world.client.delete(InferenceServiceClass, name)


async def test_an_object_of_somebody_else_is_left_alone(world: World) -> None:
    port = {"name": "mine", "port": 5432}
    metadata = {"namespace": world.namespace, "name": "chat"}
    manifest = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [port]}}
    made = await world.client.create(manifest)
    await world.model("qwen")
    await world.order("chat", "qwen")
    refused = await world.says("chat", "Ready", "ObjectConflict")
    assert refused.status is not None
    path = f"/api/v1/namespaces/{world.namespace}/services/chat"
    assert made["metadata"]["uid"].encode() in await world.client.request("GET", path)
    assert await world.workload("chat") is None
    await world.client.request("DELETE", path)
    await world.says("chat", "WorkloadReady", "Unschedulable")


async def test_without_a_planner_nothing_is_made_and_it_says_so(world: World) -> None:
    name = f"planned-{world.namespace}"
    await world.make_class(
        name, exposurePolicy={"type": "ClusterLocal"}, acceleratorPolicy={"fallback": "CPU"}
    )
    try:
        await world.model("qwen")
        await world.order("chat", "qwen", name)
        waiting = await world.says("chat", "Planned", "PlannerUnavailable")
        assert waiting.status is not None
        assert waiting.status.resolved is None
        assert await world.workload("chat") is None
    finally:
        await world.client.delete(InferenceServiceClass, name)


async def test_who_changes_the_workload_finds_it_put_right(world: World) -> None:
    await world.model("qwen")
    await world.order("chat", "qwen")
    await world.says("chat", "WorkloadReady", "Unschedulable")
    await world.client.patch(StatefulSet, "chat", {"spec": {"replicas": 3}}, namespace=world.namespace)

    async def put_right() -> bool:
        found = await world.workload("chat")
        return found is not None and found.spec.replicas == 1

    await eventually(put_right)


async def test_a_key_is_rotated_without_a_restart(world: World) -> None:
    await world.model("qwen")
    await world.make_class(f"keys-{world.namespace}", exposurePolicy={"type": "External"})
    try:
        await world.order("chat", "qwen", f"keys-{world.namespace}")
        await world.says("chat", "WorkloadReady", "Unschedulable")
        first, before = await world.token("chat"), await world.workload("chat")
        body = {"metadata": {"annotations": {"ai.deckhouse.io/rotate-token": "now"}}}
        await world.client.patch(InferenceService, "chat", body, namespace=world.namespace)

        async def rotated() -> bool:
            return await world.token("chat") != first

        await eventually(rotated)
        secret = await world.client.get(Secret, "chat-auth", world.namespace)
        assert secret.data["previousToken"].decode() == first
        after = await world.workload("chat")
        assert before is not None
        assert after is not None
        assert after.metadata.generation == before.metadata.generation
    finally:
        await world.client.delete(InferenceServiceClass, f"keys-{world.namespace}")


async def test_a_quota_that_refuses_an_object_is_told(world: World) -> None:
    await limited(world.client, world.namespace, {"count/statefulsets.apps": "0"})
    await world.model("qwen")
    await world.order("chat", "qwen")
    refused = await world.says("chat", "Ready", "ObjectRefused")
    assert refused.status is not None
    told = find(refused.status.conditions, "Ready")
    assert told is not None
    assert "quota" in told.message
    await unlimited(world.client, world.namespace)
    await world.says("chat", "WorkloadReady", "Unschedulable")


async def test_an_order_that_is_closed_to_the_outside_loses_its_ingress_and_keeps_its_key(
    world: World,
) -> None:
    name = f"open-{world.namespace}"
    await world.model("qwen")
    await world.make_class(name, exposurePolicy={"type": "External", "authentication": "Token"})
    try:
        await world.order(f"chat-{world.namespace}", "qwen", name)
        order = f"chat-{world.namespace}"
        opened = await world.says(order, "WorkloadReady", "Unschedulable")
        assert opened.status is not None
        assert opened.status.endpoint is not None
        assert opened.status.endpoint.url == f"https://{order}.services.example.com"
        key = await world.token(order)
        assert "--proxied" in await _gate(world, order)
        ingress = f"/apis/networking.k8s.io/v1/namespaces/{world.namespace}/ingresses/{order}"
        assert f"{order}.services.example.com".encode() in await world.client.request("GET", ingress)
        body = {"spec": {"exposurePolicy": {"type": "ClusterLocal", "authentication": "Token"}}}
        await world.client.patch(InferenceServiceClass, name, body)

        async def gone() -> bool:
            try:
                await world.client.request("GET", ingress)
            except NotFound:
                return True
            return False

        await eventually(gone)

        async def believes_nobody() -> bool:
            return "--proxied" not in await _gate(world, order)

        await eventually(believes_nobody)
        assert await world.token(order) == key
    finally:
        await world.client.delete(InferenceServiceClass, name)


async def test_an_open_order_whose_class_begins_to_ask_for_a_key_is_closed_until_every_replica_asks(
    world: World,
) -> None:
    order = f"chat-{world.namespace}"
    free = {"type": "External", "authentication": "None"}
    await world.model("qwen")
    await world.make_class(order, exposurePolicy=free, updatePolicy={"strategy": "OnDelete"})
    try:
        await world.order(order, "qwen", order)
        await world.says(order, "WorkloadReady", "Unschedulable")
        await eventually(lambda: _hosts(world, order))
        body = {"spec": {"exposurePolicy": {"type": "External", "authentication": "Token"}}}
        await world.client.patch(InferenceServiceClass, order, body)

        async def closed() -> bool:
            found = (await world.get(order)).status
            assert found is not None
            assert found.endpoint is not None
            return found.endpoint.url is None and await _hosts(world, order) == []

        await eventually(closed)

        async def next_ones_ask() -> bool:
            found = await world.workload(order)
            seen = found is not None and found.status.observed_generation == found.metadata.generation
            return seen and "--keys" in await _gate(world, order)

        await eventually(next_ones_ask)
        assert await _hosts(world, order) == []
        now = {"gracePeriodSeconds": "0"}
        await world.client.request("DELETE", Pod.KIND.path(world.namespace, f"{order}-0"), params=now)
        found = await eventually(lambda: _hosts(world, order))
        assert found == [f"{order}.services.example.com"]
    finally:
        await world.client.delete(InferenceServiceClass, order)


async def test_a_host_that_no_ingress_would_be_given_is_replaced_and_its_clients_are_told(
    world: World,
) -> None:
    order = f"chat-{world.namespace}"
    await world.model("qwen")
    await world.make_class(order, exposurePolicy={"type": "External", "authentication": "Token"})
    try:
        await world.order(order, "qwen", order)
        await world.says(order, "WorkloadReady", "Unschedulable")
        await eventually(lambda: _hosts(world, order))
        # As a domain that was wrong has left it, which is corrected by now.
        wrong = {"status": {"endpoint": {"domain": "chat.wrong.test", "url": "https://chat.wrong.test"}}}
        await world.client.request("DELETE", Ingress.KIND.path(world.namespace, order))
        await world.client.patch(
            InferenceService, order, wrong, namespace=world.namespace, subresource="status"
        )

        async def told() -> bool:
            events = await world.client.list(Event, world.namespace)
            return any(one.reason == "HostChanged" and "chat.wrong.test" in one.message for one in events)

        await eventually(told)
        found = (await world.get(order)).status
        assert found is not None
        assert found.endpoint is not None
        assert found.endpoint.domain == f"{order}.services.example.com"
    finally:
        await world.client.delete(InferenceServiceClass, order)


async def _hosts(world: World, order: str) -> list[str]:
    """Return the hosts that lead to an order."""
    found = await world.client.find(Ingress, order, world.namespace)
    return [rule.host for rule in found.spec.rules] if found else []


async def _gate(world: World, order: str) -> list[str]:
    """Return the command line of the gate that an order's next Pods have."""
    workload = await world.workload(order)
    assert workload is not None
    (gate,) = workload.pod_template["spec"]["initContainers"]
    return list(gate["command"])
