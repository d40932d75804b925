"""The chart of ai-inference on a real API server: the class that it makes once, and what stays after it.

Installed as Deckhouse does, since there the chart has no Job that needs a node.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from aiinference.api.classes import InferenceServiceClass
from aiinference.api.orders import InferenceService
from kubekit.client import Client, connect
from kubekit.errors import NotFound
from kubekit.resources import Namespace
from tests.kit import helm
from tests.kit.inferenceapi import CHART, HUB, order, until_unbounded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.cluster

NAME = "default-llm"
SHIPPED = yaml.safe_load("""
modelPolicy:
  allowedEndpointTypes: [Chat, Embeddings, Rerank]
exposurePolicy:
  type: External
  authentication: Token
  https: {mode: CertManager, certManager: {clusterIssuerName: selfsigned}}
acceleratorPolicy:
  {allowedSharingModes: [Shared], allowedPlacementTypes: [WholeDevice], maxAcceleratorCount: 1, fallback: CPU}
scalingPolicy: {minReplicas: 1, maxReplicas: 2}
""")
#: an administrator keeps the class inside the cluster
NARROWED: dict[str, Any] = {
    "metadata": {"labels": {"reviewed": "yes"}},
    "spec": {"exposurePolicy": {"type": "ClusterLocal", "https": None}, "scalingPolicy": {"maxReplicas": 1}},
}


@pytest.fixture
async def client(control_plane: Path) -> AsyncIterator[Client]:
    async with connect(control_plane) as client:
        yield client
        uninstall(control_plane)
        with suppress(NotFound):
            await client.delete(InferenceServiceClass, NAME)
        await until_unbounded(client)


def install(cluster: Path, verb: str, settings: str = "{}") -> str:
    # Other tests have applied the definitions before: helm is told to take them over.
    words = ("--take-ownership", "--set-json", f"aiInference={settings}")
    return helm.helm(verb, "ai-inference", str(CHART), "-n", "default", *words, kubeconfig=cluster)


def uninstall(cluster: Path) -> None:
    helm.helm("uninstall", "ai-inference", "-n", "default", "--ignore-not-found", kubeconfig=cluster)


async def the_class(client: Client) -> dict[str, Any]:
    body = await client.request("GET", InferenceServiceClass.KIND.path(name=NAME))
    found: dict[str, Any] = yaml.safe_load(body)
    return found


async def test_the_class_is_made_once_and_the_administrators_from_then_on(
    control_plane: Path, client: Client, namespace: str
) -> None:
    assert "wait with DomainMissing" in install(control_plane, "install")
    made = await the_class(client)
    assert made["spec"] == SHIPPED
    assert made["metadata"]["labels"]["module"] == "ai-inference"
    labels = (await client.get(Namespace, "d8-ai-inference")).metadata.labels
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"

    await client.patch(InferenceServiceClass, NAME, NARROWED)
    narrowed = await the_class(client)
    assert narrowed["spec"]["exposurePolicy"] == {"type": "ClusterLocal", "authentication": "Token"}
    domain = '{"logLevel": "Debug", "domainTemplate": "%s.services.example.com"}'
    assert "DomainMissing" not in install(control_plane, "upgrade", domain)
    assert await the_class(client) == narrowed

    await client.delete(InferenceServiceClass, NAME)
    install(control_plane, "upgrade")
    again = await the_class(client)
    assert again["spec"] == SHIPPED

    await client.create(order("kept", namespace, HUB, inferenceServiceClassName=NAME))
    uninstall(control_plane)
    assert await the_class(client) == again
    await client.get(InferenceService, "kept", namespace)
