"""The walk-through as a user types it: its manifests are taken whole, and its rules hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
import yaml

from aiinference.api.classes import InferenceServiceClass
from aiinference.api.orders import InferenceService
from kubekit.client import Client, connect
from kubekit.errors import KubeError
from tests.kit.inferenceapi import CHART, CLASS, HUB, inference_class, order
from tests.kit.modelsapi import install_definitions
from tests.kit.vectors import cases

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


KINDS = {kind.KIND.name: kind.KIND for kind in (InferenceServiceClass, InferenceService)}


async def offered(client: Client, manifest: dict[str, Any], validation: str = "Strict") -> dict[str, Any]:
    """Return the spec as the API server would keep it."""
    path = KINDS[manifest["kind"]].path(manifest["metadata"].get("namespace"))
    params = {"fieldValidation": validation, "dryRun": "All"}
    body = await client.request("POST", path, body=manifest, params=params)
    spec: dict[str, Any] = yaml.safe_load(body)["spec"]
    return spec


@pytest.mark.parametrize("manifest", manifests(), ids=lambda manifest: manifest["metadata"]["name"])
async def test_it_is_taken_whole(client: Client, manifest: dict[str, Any]) -> None:
    assert await offered(client, manifest) == manifest["spec"]


@pytest.mark.parametrize("case", cases("allocator.json", "api-admission"))
async def test_the_vectors_of_admission(client: Client, case: dict[str, Any]) -> None:
    """Of a Model's namespace only the form is a rule of the CRD; a policy has it be the order's own."""
    given = dict(case["input"])
    validation = "Ignore" if given.pop("strict", True) is False else "Strict"
    if given.pop("kind", "") == "InferenceServiceClass":
        https = given["exposurePolicy"].get("https", {})
        if https.get("mode", "").startswith("<other"):
            https["mode"] = "OnlyInURI"
        manifest = inference_class("tried", given)
    else:
        more = given.pop("spec", {})
        manifest = order("tried", "default", given.pop("model", HUB), **more)
    assert not given.keys() - manifest["spec"].keys()
    if case["expected"]["accepted"]:
        await offered(client, manifest, validation)
    else:
        with pytest.raises(KubeError):
            await offered(client, manifest, validation)


@pytest.mark.parametrize("manifest", [order("tried", "default", HUB), inference_class("tried", CLASS)])
@pytest.mark.parametrize("field", ["runtime", "replicas", "image"])
async def test_what_the_walk_through_does_not_know_is_refused_or_dropped(
    client: Client, manifest: dict[str, Any], field: str
) -> None:
    more = manifest | {"spec": manifest["spec"] | {field: {"name": "vllm"}}}
    with pytest.raises(KubeError, match=f'unknown field "spec.{field}"'):
        await offered(client, more)
    assert await offered(client, more, "Ignore") == manifest["spec"]


async def test_the_rules_hold_for_changes_too(client: Client, namespace: str) -> None:
    await client.create(inference_class(namespace, CLASS))
    await client.create(order("changed", namespace, HUB))
    try:
        without = {"spec": {"modelPolicy": {"allowedEndpointTypes": None}}}
        with pytest.raises(KubeError, match="would get no inference API"):
            await client.patch(InferenceServiceClass, namespace, without)
        elsewhere = {"spec": {"model": {"ref": {"namespace": namespace}}}}
        with pytest.raises(KubeError, match="belongs to no namespace; remove"):
            await client.patch(InferenceService, "changed", elsewhere, namespace=namespace)
    finally:
        await client.delete(InferenceServiceClass, namespace)
