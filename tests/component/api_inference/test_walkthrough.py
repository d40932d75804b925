"""The manifests of the walk-through as a user types them: taken whole, by clients that validate strictly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
import yaml

from aiinference.api.classes import InferenceServiceClass
from aiinference.api.orders import InferenceService
from kubekit.client import Client, connect
from tests.kit.inferenceapi import CHART
from tests.kit.modelsapi import install_definitions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Samples that leave the endpoint types out are completed with them: the text makes them obligatory.
CLASSES = """
default-llm:
  modelPolicy: {allowedEndpointTypes: [Chat, Embeddings, Rerank]}
  exposurePolicy:
    type: External
    authentication: Token
    https: {mode: CertManager, certManager: {clusterIssuerName: selfsigned}}
llm-chat-shared:
  modelPolicy: {allowedEndpointTypes: [Chat], maxParameterCount: 70B}
  acceleratorPolicy:
    allowedDeviceClasses: [nvidia-h100-mps-mig]
    allowedSharingModes: [Shared]
    allowedPlacementTypes: [Partition, WholeDevice]
    maxAcceleratorCount: 1
    minSharePercent: 25
    maxSharePercent: 100
  admissionPolicy: {allowedNamespaces: ["*"]}
  exposurePolicy: {type: External, authentication: Token}
  scalingPolicy: {allowedPriorityClassNames: [demo-inference-normal], minReplicas: 1, maxReplicas: 4}
  updatePolicy: {strategy: RollingUpdate}
embeddings-dedicated:
  modelPolicy: {allowedEndpointTypes: [Embeddings]}
  admissionPolicy: {allowedNamespaces: ["*"]}
  exposurePolicy: {type: ClusterLocal, authentication: "None"}
  scalingPolicy: {allowedPriorityClassNames: [demo-inference-high], minReplicas: 1, maxReplicas: 4}
  updatePolicy: {strategy: RollingUpdate}
"""
ORDERS = """
support-llm:
  inferenceServiceClassName: default-llm
  model: {ref: {name: Qwen/Qwen2.5-32B-Instruct-AWQ}, src: HuggingFace}
support-llm-narrowed:
  inferenceServiceClassName: default-llm
  model: {ref: {name: Qwen/Qwen2.5-32B-Instruct-AWQ}, src: HuggingFace}
  resources: {accelerator: {deviceClasses: [nvidia-h100-mps-mig]}}
gated:
  model:
    ref: {name: meta-llama/Llama-3.1-8B}
    src: HuggingFace
    authSecretRef: {name: hf-token, key: token}
search-embeddings:
  inferenceServiceClassName: embeddings-dedicated
  model: {ref: {name: intfloat/multilingual-e5-large}, src: HuggingFace}
support-llm-catalogue:
  inferenceServiceClassName: llm-chat-shared
  model: {ref: {kind: ClusterModel, name: qwen2-5-32b-instruct-awq}, src: ai-models}
  launchStrategy: Throughput
own-model:
  inferenceServiceClassName: llm-chat-shared
  model: {ref: {kind: Model, name: qwen2-5-32b-instruct-awq, namespace: default}, src: ai-models}
"""


def manifests() -> list[dict[str, Any]]:
    found = []
    for kind, text in (("InferenceServiceClass", CLASSES), ("InferenceService", ORDERS)):
        place = {"namespace": "default"} if kind == "InferenceService" else {}
        for name, spec in yaml.safe_load(text).items():
            head = {"apiVersion": "ai.deckhouse.io/v1alpha1", "kind": kind}
            found.append({**head, "metadata": {"name": name, **place}, "spec": spec})
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(control_plane: Path) -> AsyncIterator[Client]:
    async with connect(control_plane) as client:
        await install_definitions(client, CHART)
        yield client


@pytest.mark.parametrize("manifest", manifests(), ids=lambda manifest: manifest["metadata"]["name"])
async def test_it_is_taken_whole(client: Client, manifest: dict[str, Any]) -> None:
    kinds = {kind.KIND.name: kind.KIND for kind in (InferenceServiceClass, InferenceService)}
    path = kinds[manifest["kind"]].path(manifest["metadata"].get("namespace"))
    body = await client.request(
        "POST", path, body=manifest, params={"fieldValidation": "Strict", "dryRun": "All"}
    )
    assert yaml.safe_load(body)["spec"] == manifest["spec"]
