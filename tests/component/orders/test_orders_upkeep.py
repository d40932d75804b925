"""What runs is kept up, and what cannot run says why, whatever becomes of the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aiinference.api.classes import InferenceServiceClass
from aiinference.api.orders import InferenceService
from aimodels.api.model import Model
from kubekit.conditions import find
from kubekit.errors import NotFound
from kubekit.resources import Event, Secret, StatefulSet, custom
from tests.kit.eventually import eventually
from tests.kit.quota import limited, unlimited

if TYPE_CHECKING:
    from tests.kit.ordersworld import World

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="session")]
INGRESSES = custom("networking.k8s.io", "v1", "Ingress", "ingresses")


async def test_pods_that_are_never_made_say_why_until_they_are(world: World) -> None:
    await limited(world.client, world.namespace, {"pods": "0"})
    await world.model("qwen")
    await world.order("chat", "qwen")
    refused = await world.says("chat", "WorkloadReady", "ObjectRefused")
    assert refused.status is not None
    told = find(refused.status.conditions, "Ready")
    assert told is not None
    assert told.reason == "ObjectRefused"
    assert "exceeded quota: few" in told.message
    await unlimited(world.client, world.namespace)
    await world.says("chat", "WorkloadReady", "Unschedulable")

    async def is_told() -> list[str] | None:
        selector = f"involvedObject.uid={refused.metadata.uid}"
        found = await world.client.list(Event, world.namespace, field_selector=selector)
        reasons = [one.reason for one in found if one.reporting_component == "ai-inference-controller"]
        return reasons if "Unschedulable" in reasons else None

    # The controller may hear of an order a moment before its class, and says so.
    assert sorted(set(await eventually(is_told)) - {"ClassNotFound"}) == ["ObjectRefused", "Unschedulable"]


async def test_a_template_that_somebody_has_made_up_is_never_run(world: World) -> None:
    await world.model("qwen")
    await world.order("chat", "qwen")
    await world.says("chat", "WorkloadReady", "Unschedulable")
    before = await world.workload("chat")
    assert before is not None
    kept = before.metadata.annotations["ai.deckhouse.io/frozen-template"]
    evil = kept.replace('"image":"llama:tests"', '"image":"evil"')
    assert evil != kept
    body = {"metadata": {"annotations": {"ai.deckhouse.io/frozen-template": evil}}}
    await world.client.patch(StatefulSet, "chat", body, namespace=world.namespace)

    async def is_put_right() -> bool:
        found = await world.workload("chat")
        assert found is not None
        assert found.spec.template == before.spec.template
        return found.metadata.annotations["ai.deckhouse.io/frozen-template"] == kept

    await eventually(is_put_right)
    told = await world.get("chat")
    assert told.status is not None
    assert told.status.template_digest is not None


async def test_what_runs_is_closed_rekeyed_and_put_right_while_its_model_is_gone(world: World) -> None:
    order = f"chat-{world.namespace}"
    await world.model("qwen")
    await world.make_class(order, exposurePolicy={"type": "External", "authentication": "Token"})
    try:
        await world.order(order, "qwen", order)
        await world.says(order, "WorkloadReady", "Unschedulable")
        before = await world.workload(order)
        assert before is not None
        # An editor of the namespace takes labels off: that keeps neither what is open nor the key.
        bare = {"metadata": {"labels": None}}
        for kind, name in ((INGRESSES, order), (Secret.KIND, f"{order}-auth")):
            await world.client.patch(kind, name, bare, namespace=world.namespace)
        await world.client.delete(Model, "qwen", world.namespace)
        closed = {"exposurePolicy": {"type": "ClusterLocal", "authentication": "None"}}
        await world.client.patch(InferenceServiceClass, order, {"spec": closed})
        await world.says(order, "ModelResolved", "ModelNotFound")

        async def is_closed() -> bool:
            try:
                await world.client.request("GET", INGRESSES.path(world.namespace, order))
            except NotFound:
                return True
            return False

        await eventually(is_closed)
        first = await world.token(order)
        body = {"metadata": {"annotations": {"ai.deckhouse.io/rotate-token": "now"}}}
        await world.client.patch(InferenceService, order, body, namespace=world.namespace)

        async def is_rotated() -> bool:
            return await world.token(order) != first

        await eventually(is_rotated)
        await world.client.patch(StatefulSet, order, {"spec": {"replicas": 3}}, namespace=world.namespace)

        async def is_put_right() -> bool:
            found = await world.workload(order)
            return found is not None and found.spec.replicas == 1

        await eventually(is_put_right)
        after = await world.workload(order)
        assert after is not None
        assert after.spec.template == before.spec.template
        told = await world.says(order, "ModelResolved", "ModelNotFound")
        assert told.status is not None
        assert told.status.endpoint is not None
        assert (told.status.endpoint.type, told.status.endpoint.url) == ("ClusterLocal", None)
    finally:
        await world.client.delete(InferenceServiceClass, order)
