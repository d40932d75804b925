"""What is built for an order is taken by the real API server, and applying it again changes nothing."""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from aiinference.workload import auth, build
from aiinference.workload.intent import Intent, Settings
from kubekit.apply import Applier
from kubekit.client import Client, connect
from kubekit.errors import Conflict
from kubekit.resources import Secret, StatefulSet, kind_of
from tests.kit import inferenceapi, orders
from tests.kit.modelsapi import install_definitions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SETTINGS = Settings(
    gate_image="registry.example/gate:1",
    ingress_class="nginx",
    monitoring_namespaces=("d8-monitoring",),
    tolerations=({"key": "dedicated", "operator": "Exists"},),
    node_selector={"pool": "inference"},
    image_pull_secrets=("pull",),
)


@pytest_asyncio.fixture
async def client(control_plane: Path) -> AsyncIterator[Client]:
    async with connect(control_plane) as connected:
        yield connected


def _intents(metadata: dict[str, Any]) -> dict[str, Intent]:
    inside = orders.policy(exposure=orders.exposure("ClusterLocal", "None", None))
    cluster_model = orders.order(metadata=metadata, kind="ClusterModel")
    external = orders.intent(order=orders.order(metadata=metadata))
    return {
        "external": external,
        "inside": replace(external, order=cluster_model, policy=inside, host=None),
        "without a class": replace(external, endpoint_type=None),
        "on delete": replace(external, policy=orders.policy(update_strategy="OnDelete"), replicas=0),
    }


@pytest.mark.parametrize("which", _intents({}))
async def test_every_object_is_accepted_and_nothing_in_it_is_unknown(
    client: Client, namespace: str, which: str
) -> None:
    for manifest in _known(build.objects(_intents({"namespace": namespace})[which], SETTINGS)):
        path = kind_of(manifest).path(namespace, manifest["metadata"]["name"])
        params = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "test", "force": "true"}
        await client.request(
            "PATCH", path, params=params, body=manifest, content_type="application/apply-patch+yaml"
        )


def _known(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what only a cluster with Prometheus' operator knows, as the controller does."""
    return [one for one in manifests if one["kind"] != "PodMonitor"]


async def _made(client: Client, namespace: str) -> Intent:
    """Make the order itself, with which its objects go, and return what it runs as."""
    await install_definitions(client, inferenceapi.CHART)
    made = await client.create(inferenceapi.order(orders.NAME, namespace, inferenceapi.MODEL))
    return _intents({"namespace": namespace, "uid": made["metadata"]["uid"]})["external"]


async def test_applying_again_changes_nothing_and_repairs_what_others_changed(
    client: Client, namespace: str
) -> None:
    applier, wanted = Applier(client, "ai-inference"), await _made(client, namespace)
    newer = replace(SETTINGS, gate_image="registry.example/gate:2")

    async def apply(settings: Settings) -> dict[str, dict[str, Any]]:
        current = await client.find(StatefulSet, orders.NAME, namespace)
        manifests = _known(build.objects(wanted, settings, current.metadata.annotations if current else None))
        return {manifest["kind"]: await applier.apply(manifest) for manifest in manifests}

    first, again = await apply(SETTINGS), await apply(newer)
    for kind, made in first.items():
        assert again[kind]["metadata"].get("generation") == made["metadata"].get("generation"), kind
        assert again[kind].get("spec") == made.get("spec"), kind
    image = {"spec": {"template": {"spec": {"containers": [{"name": "runtime", "image": "other:1"}]}}}}
    await client.patch(StatefulSet, orders.NAME, image, namespace=namespace, content="strategic")
    repaired = (await apply(newer))["StatefulSet"]
    assert repaired["spec"]["template"] == first["StatefulSet"]["spec"]["template"]


async def test_a_key_is_replaced_only_as_it_was_read(client: Client, namespace: str) -> None:
    wanted, now = await _made(client, namespace), datetime.now(UTC)
    name = f"{orders.NAME}-auth"

    def plan(secret: Secret | None, wish: str) -> auth.KeyPlan:
        metadata = {"namespace": namespace, "uid": wanted.order.metadata.uid}
        order = orders.order(metadata=metadata, annotations={"ai.deckhouse.io/rotate-token": wish})
        return auth.plan(order, secret, now, lambda: secrets.token_urlsafe(32))

    created = plan(None, "")
    assert created.manifest is not None
    await client.create(created.manifest)
    first = await client.get(Secret, name, namespace)
    rotated, late = plan(first, "one"), plan(first, "two")
    for manifest in (rotated.manifest, late.manifest):
        assert manifest is not None
    path = Secret.KIND.path(namespace, name)
    await client.request("PUT", path, body=rotated.manifest)
    with pytest.raises(Conflict):
        await client.request("PUT", path, body=late.manifest)
    second = await client.get(Secret, name, namespace)
    assert second.data["previousToken"] == first.data["token"]
    assert plan(second, "one").step == auth.Step.KEEP
