"""The controller's process as the chart installs it: classes get statuses, the planner its certificate."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from aiinference.api.classes import InferenceServiceClass
from aiinference.api.orders import InferenceService
from kubekit.client import Client, connect
from kubekit.conditions import find
from kubekit.resources import ConfigMap, Kind, Secret, custom
from tests.kit.controlplane import fresh_namespace
from tests.kit.eventually import eventually
from tests.kit.inferenceapi import CHART, CLASS, MODEL, inference_class, order
from tests.kit.inferencecontroller import Controller, entitled
from tests.kit.modelsapi import install_definitions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PRIORITY = custom("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
DEVICE = custom("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", namespaced=False)


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(control_plane: Path) -> AsyncIterator[Client]:
    async with connect(control_plane) as client:
        await install_definitions(client, CHART)
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def controller(
    client: Client, control_plane: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Controller]:
    """Return a controller without a domain; the last test ends it."""
    folder = tmp_path_factory.mktemp("controller")
    with fresh_namespace(control_plane) as home:
        async with entitled(control_plane, home, folder) as kubeconfig:
            made = Controller(kubeconfig, home, folder / "controller.log")
            await made.start()
            yield made
            if made.process is not None and made.process.returncode is None:
                await made.end(signal.SIGKILL)


async def ready(client: Client, name: str, status: str, reason: str) -> InferenceServiceClass:
    """Wait until the class's Ready is so, and return the class."""

    async def said() -> InferenceServiceClass | None:
        klass = await client.get(InferenceServiceClass, name)
        found = find(klass.status.conditions, "Ready") if klass.status else None
        return klass if found and (found.status, found.reason) == (status, reason) else None

    found: InferenceServiceClass = await eventually(said)
    return found


def named(kind: Kind, name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}} | more


async def test_the_planner_gets_its_certificate(client: Client, controller: Controller) -> None:
    namespace = controller.namespace

    async def made() -> Secret | None:
        return await client.find(Secret, "ai-inference-planner-tls", namespace)

    first = await eventually(made)
    assert first
    assert first.data.keys() == {"tls.crt", "tls.key"}
    trust = await client.get(ConfigMap, "ai-inference-trust", namespace)
    assert "BEGIN CERTIFICATE" in trust.data["ca.crt"]


@pytest.mark.usefixtures("controller")
async def test_an_order_to_be_reached_from_outside_waits_for_a_domain(client: Client, namespace: str) -> None:
    await client.create(order("outside", namespace, MODEL))

    async def told() -> InferenceService | None:
        found = await client.get(InferenceService, "outside", namespace)
        ready = find(found.status.conditions, "Ready") if found.status else None
        return found if ready is not None and ready.reason == "DomainMissing" else None

    waiting = await eventually(told)
    assert waiting is not None
    assert waiting.status is not None
    assert (waiting.status.phase, waiting.status.endpoint) == ("Pending", None)
    assert [one.type for one in waiting.status.conditions if one.status == "False"] == [
        "ClassResolved",
        "Ready",
    ]


async def test_classes_follow_what_they_name(client: Client, controller: Controller, namespace: str) -> None:
    spec = CLASS | {
        "acceleratorPolicy": {"allowedDeviceClasses": [namespace]},
        "scalingPolicy": {"allowedPriorityClassNames": [namespace]},
    }
    cleanup = [(PRIORITY, namespace), (DEVICE, namespace), (InferenceServiceClass.KIND, namespace)]
    await client.create(inference_class(namespace, spec))
    try:
        await ready(client, namespace, "False", "PriorityClassMissing")
        await client.create(named(PRIORITY, namespace, value=1), kind=PRIORITY)
        waiting = await ready(client, namespace, "False", "DeviceClassMissing")
        assert waiting.status
        assert waiting.status.phase == "Pending"
        await client.create(named(DEVICE, namespace, spec={}), kind=DEVICE)
        usable = await ready(client, namespace, "True", "Ready")
        assert usable.status
        assert (usable.status.phase, usable.status.observed_generation) == ("Ready", 1)

        shares = {
            "spec": {"acceleratorPolicy": {"maxSharePercent": 40, "allowedSharingModes": ["Dedicated"]}}
        }
        await client.patch(InferenceServiceClass, namespace, shares)
        wrong = await ready(client, namespace, "False", "AcceleratorPolicyViolation")
        assert wrong.status
        assert (wrong.status.phase, wrong.status.observed_generation) == ("Failed", 2)
    finally:
        for kind, name in cleanup:
            await client.request("DELETE", kind.path(name=name))
    assert await controller.end() == 0
