"""What others do to an order: classes edited under it, Pods that look alike, webhooks that are away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aiinference.api.classes import InferenceServiceClass
from kubekit.conditions import find
from kubekit.resources import Pod, custom
from tests.kit.eventually import eventually
from tests.kit.ordersworld import answering

if TYPE_CHECKING:
    from aiinference.api.orders import InferenceService
    from tests.kit.ordersworld import World

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="session")]
WEBHOOKS = custom(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)


def message(order: InferenceService, type_: str) -> str:
    found = find(order.status.conditions, type_) if order.status else None
    assert found is not None
    return found.message


async def test_a_mistyped_class_does_not_touch_what_runs(world: World) -> None:
    await world.model("qwen")
    await world.order("chat", "qwen")
    await world.says("chat", "WorkloadReady", "Unschedulable")
    before = await world.workload("chat")
    body = {"spec": {"scalingPolicy": {"allowedPriorityClassNames": ["mistyped"]}}}
    await world.client.patch(InferenceServiceClass, world.klass, body)
    told = await world.says("chat", "ClassResolved", "ClassNotReady")
    assert "mistyped" in message(told, "ClassResolved")
    after = await world.workload("chat")
    assert before is not None
    assert after is not None
    assert after.metadata.generation == before.metadata.generation


async def test_the_key_is_sent_to_nobody_but_the_orders_own_pods(world: World) -> None:
    await world.model("qwen")
    await world.order("chat", "qwen")
    await world.says("chat", "WorkloadReady", "Unschedulable")
    own = await world.client.get(Pod, "chat-0", world.namespace)
    spec = {"containers": [{"name": "runtime", "image": "x"}]}
    metadata = {"namespace": world.namespace, "labels": own.metadata.labels}
    async with answering() as runtime, answering() as thief:
        # Of another name, so that the StatefulSet does not take it for one of its own.
        foreign = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata | {"name": "thief"}, "spec": spec}
        await world.client.create(foreign)
        await world.run("chat", thief, pod="thief")
        await world.run("chat", runtime)
        await world.says("chat", "Ready", "Ready")
        assert runtime.keys
        assert thief.keys == []


async def test_a_webhook_that_is_away_is_told_and_passes(world: World) -> None:
    name = f"away-{world.namespace}"
    rule = {
        "apiGroups": ["networking.k8s.io"],
        "apiVersions": ["*"],
        "operations": ["*"],
        "resources": ["ingresses"],
    }
    hook = {
        "name": "away.example.com",
        "rules": [rule],
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": WEBHOOKS.name}
    await world.client.create(head | {"metadata": {"name": name}, "webhooks": [hook]}, kind=WEBHOOKS)
    await world.model("qwen")
    await world.make_class(name, exposurePolicy={"type": "External", "authentication": "Token"})
    try:
        await world.order(name, "qwen", name)
        refused = await world.says(name, "RuntimeCurrent", "ObjectRefused")
        assert "webhook" in message(refused, "RuntimeCurrent")
        await world.client.delete(WEBHOOKS, name)
        await world.says(name, "RuntimeCurrent", "RuntimeCurrent")

        async def made() -> bool:
            path = f"/apis/networking.k8s.io/v1/namespaces/{world.namespace}/ingresses"
            return name.encode() in await world.client.request("GET", path)

        await eventually(made)
    finally:
        await world.client.delete(WEBHOOKS, name)
        await world.client.delete(InferenceServiceClass, name)
