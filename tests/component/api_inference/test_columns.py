"""What ``kubectl get`` shows of classes and orders, and what their statuses may say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from aiinference.api.classes import InferenceServiceClass
from aiinference.api.orders import InferenceService
from kubekit.client import Client, connect
from kubekit.errors import Invalid
from tests.kit.inferenceapi import CHART, HUB, inference_class, order
from tests.kit.modelsapi import install_definitions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kubekit.resources import Resource

READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@pytest.fixture
async def client(control_plane: Path) -> AsyncIterator[Client]:
    async with connect(control_plane) as client:
        await install_definitions(client, CHART)
        yield client


async def shown(client: Client, kind: type[Resource], name: str, namespace: str | None) -> dict[str, Any]:
    """Return the row of ``kubectl get`` by column; Age is left out."""
    request = client._session.build_request(
        "GET",
        kind.KIND.path(namespace, name),
        headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"},
    )
    table = json.loads((await client._session.send(request)).content)
    columns = [one["name"] for one in table["columnDefinitions"]]
    row = dict(zip(columns, table["rows"][0]["cells"], strict=True))
    assert columns[-1] == "Age"
    return {name: cell for name, cell in row.items() if name not in {"Name", "Age"}}


async def test_an_order_shows_the_promised_columns(client: Client, namespace: str) -> None:
    await client.create(order("support-llm", namespace, HUB))
    status = {
        "observedGeneration": 1,
        "phase": "Ready",
        "model": {"endpointType": "Chat"},
        "endpoint": {"type": "External", "url": "https://support-llm.services.example"},
        "authSecretName": "support-llm-auth",
        "constraints": {"minReplicas": 1, "maxReplicas": 4, "modelScope": "Cluster"},
        "resolved": {
            "deviceClass": "nvidia-h100-mps",
            "acceleratorProductName": "NVIDIA H100 80GB HBM3",
            "acceleratorMemoryGiB": 80,
            "placementMode": "WholeDevice",
            "sharingMode": "Shared",
            "sharePercent": 52,
            "replanCount": 0,
        },
        "share": "52%",
        "startup": {"phase": "Done", "readyTime": "2026-01-01T00:00:00Z", "seconds": {"loading": 12}},
        "conditions": [READY],
    }
    made = await client.patch(
        InferenceService, "support-llm", {"status": status}, namespace=namespace, subresource="status"
    )
    assert made["status"] == status
    assert await shown(client, InferenceService, "support-llm", namespace) == {
        "Phase": "Ready",
        "Reason": "Ready",
        "Device": "nvidia-h100-mps",
        "Share": "52%",
        "Endpoint": "https://support-llm.services.example",
    }


async def test_a_class_shows_the_promised_columns(client: Client, namespace: str) -> None:
    spec = {
        "modelPolicy": {"allowedEndpointTypes": ["Chat", "Rerank"]},
        "exposurePolicy": {"type": "ClusterLocal", "authentication": "None"},
    }
    await client.create(inference_class(namespace, spec))
    try:
        status = {"phase": "Ready", "conditions": [READY]}
        await client.patch(InferenceServiceClass, namespace, {"status": status}, subresource="status")
        assert await shown(client, InferenceServiceClass, namespace, None) == {
            "Phase": "Ready",
            "Endpoints": '["Chat","Rerank"]',
            "Exposure": "ClusterLocal",
        }
    finally:
        await client.delete(InferenceServiceClass, namespace)


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Waiting"},
        {"model": {"endpointType": "Translation"}},
        {"endpoint": {"url": "https://x"}},
        {"constraints": {"modelScope": "Everywhere"}},
        {"resolved": {"sharePercent": 0}},
        {"resolved": {"placementMode": "Half"}},
        {"startup": {"phase": "Dancing"}},
        {"conditions": [READY | {"status": "Maybe"}]},
        {"conditions": [READY, READY]},
    ],
)
async def test_words_and_numbers_outside_the_vocabulary_are_refused(
    client: Client, namespace: str, status: dict[str, Any]
) -> None:
    await client.create(order("tried", namespace, HUB))
    with pytest.raises(Invalid):
        await client.patch(
            InferenceService, "tried", {"status": status}, namespace=namespace, subresource="status"
        )
