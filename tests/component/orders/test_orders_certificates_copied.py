"""An administrator's certificate beside an order, by the real controller with its rights and bounds."""

from __future__ import annotations

import base64
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from aiinference.api.classes import InferenceServiceClass
from aiinference.api.orders import InferenceService
from kubekit import certs
from kubekit.conditions import find
from kubekit.resources import Secret
from tests.kit.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.kit.ordersworld import World

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="session")]

HOSTS = "*.services.example.com"
#: the collector looks for kinds that are new to it every half minute, and reads them all then
COLLECTED_WITHIN = 90


def issued(*hosts: str) -> dict[str, str]:
    now = datetime.now(UTC)
    ca = certs.make_ca("test", now, timedelta(days=1))
    leaf = certs.make_leaf(ca, hosts, now, timedelta(hours=1))
    data = {"tls.crt": leaf.certificate, "tls.key": leaf.key}
    return {part: base64.b64encode(value).decode() for part, value in data.items()}


async def store(world: World, *hosts: str) -> dict[str, str]:
    """Have the administrator put a certificate where the class says."""
    data = issued(*hosts)
    place = {"namespace": world.controller.namespace, "name": world.klass}
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": place,
        "type": "kubernetes.io/tls",
        "data": data,
    }
    await world.client.patch(
        Secret,
        world.klass,
        manifest,
        namespace=world.controller.namespace,
        content="apply",
        field_manager="administrator",
        force=True,
    )
    return data


async def look_again(world: World) -> None:
    body = {"metadata": {"annotations": {"example.com/looked": datetime.now(UTC).isoformat()}}}
    await world.client.patch(InferenceService, "chat", body, namespace=world.namespace)


async def copied(world: World, data: dict[str, str]) -> Secret:
    """Wait until the order's copy holds this pair."""

    async def same() -> Secret | None:
        found = await world.client.find(Secret, "chat-tls", world.namespace)
        held = {part: base64.b64encode(value).decode() for part, value in found.data.items()} if found else {}
        return found if held == data else None

    found = await eventually(same)
    assert found is not None
    return found


@asynccontextmanager
async def ordered(world: World) -> AsyncIterator[str]:
    """Order under a class that names a Secret which is not there."""
    name = f"certified-{world.namespace}"
    https = {"mode": "CustomCertificate", "customCertificate": {"secretName": world.klass}}
    await world.model("qwen")
    await world.make_class(name, exposurePolicy={"type": "External", "https": https})
    try:
        await world.order("chat", "qwen", name)
        yield name
    finally:
        await world.client.delete(InferenceServiceClass, name)


async def test_the_certificate_is_waited_for_copied_followed_and_goes_with_the_order(world: World) -> None:
    async with ordered(world):
        await world.says("chat", "Ready", "CertificateMissing")
        assert await world.workload("chat") is None
        await store(world, "elsewhere.example.com")
        wrong = await world.says("chat", "RuntimeCurrent", "CertificateInvalid")
        told = find(wrong.status.conditions, "RuntimeCurrent") if wrong.status else None
        assert told is not None
        assert f"{world.controller.namespace}/{world.klass} cannot serve " in told.message
        assert "it is for elsewhere.example.com" in told.message

        found = await copied(world, await store(world, HOSTS))
        assert found.type == "kubernetes.io/tls"
        begun = await world.says("chat", "WorkloadReady", "Unschedulable")
        assert begun.status is not None
        assert begun.status.endpoint is not None
        assert (begun.status.endpoint.url or "").startswith("https://chat")

        renewed = await store(world, HOSTS)
        await look_again(world)
        served = await copied(world, renewed)
        await store(world, "elsewhere.example.com")
        await look_again(world)
        await world.says("chat", "RuntimeCurrent", "CertificateInvalid")
        assert (await world.client.get(Secret, "chat-tls", world.namespace)).data == served.data

        await world.client.delete(InferenceService, "chat", world.namespace)

        async def gone() -> bool:
            return await world.client.find(Secret, "chat-tls", world.namespace) is None

        await eventually(gone, within=COLLECTED_WITHIN)


async def test_a_copy_goes_when_the_class_serves_orders_otherwise(world: World) -> None:
    await store(world, HOSTS)
    async with ordered(world) as name:
        await world.says("chat", "WorkloadReady", "Unschedulable")
        https = {"mode": "OnlyInURI", "customCertificate": None}
        await world.client.patch(InferenceServiceClass, name, {"spec": {"exposurePolicy": {"https": https}}})

        async def gone() -> bool:
            return await world.client.find(Secret, "chat-tls", world.namespace) is None

        await eventually(gone)
