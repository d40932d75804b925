"""The controller's process with the chart's rights: classes get statuses, the planner its certificate."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from aiinference.api.classes import InferenceServiceClass
from kubekit.client import Client, connect
from kubekit.conditions import find
from kubekit.resources import ConfigMap, Kind, Secret, custom
from tests.kit.eventually import eventually
from tests.kit.inferenceapi import CHART, CLASS, inference_class
from tests.kit.inferencecontroller import Controller, entitled
from tests.kit.modelsapi import install_definitions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PRIORITY = custom("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
DEVICE = custom("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", namespaced=False)


@pytest.fixture
async def client(control_plane: Path) -> AsyncIterator[Client]:
    async with connect(control_plane) as client:
        await install_definitions(client, CHART)
        yield client


@pytest.fixture
async def controller(
    client: Client, control_plane: Path, namespace: str, tmp_path: Path
) -> AsyncIterator[Controller]:
    async with entitled(control_plane, namespace, tmp_path) as kubeconfig:
        made = Controller(kubeconfig, namespace, tmp_path / "controller.log")
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


@pytest.mark.usefixtures("controller")
async def test_the_planner_gets_its_certificate(client: Client, namespace: str) -> None:
    async def made() -> Secret | None:
        return await client.find(Secret, "ai-inference-planner-tls", namespace)

    first = await eventually(made)
    assert first
    assert first.data.keys() == {"tls.crt", "tls.key"}
    trust = await client.get(ConfigMap, "ai-inference-trust", namespace)
    assert "BEGIN CERTIFICATE" in trust.data["ca.crt"]
