"""The API of ai-inference on a real API server: its CRDs, its admission policy, and objects to write."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiinference.api.fields import API_VERSION
from kubekit.errors import Invalid
from tests.kit.eventually import eventually

if TYPE_CHECKING:
    from kubekit.client import Client

CHART = Path(__file__).parents[2] / "modules" / "ai-inference"

Manifest = dict[str, Any]

#: the smallest specs that are taken
CLASS: Manifest = {"modelPolicy": {"allowedEndpointTypes": ["Chat"]}}
HUB: Manifest = {"src": "HuggingFace", "ref": {"name": "acme/llm"}}
MODEL: Manifest = {"src": "ai-models", "ref": {"kind": "Model", "name": "llm"}}
CLUSTER_MODEL: Manifest = {"src": "ai-models", "ref": {"kind": "ClusterModel", "name": "llm"}}


def inference_class(name: str, spec: Manifest) -> Manifest:
    """Return the manifest of a class."""
    return {
        "apiVersion": API_VERSION,
        "kind": "InferenceServiceClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def order(name: str, namespace: str, model: Manifest, **spec: Any) -> Manifest:
    """Return the manifest of an order for a model."""
    return {
        "apiVersion": API_VERSION,
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"model": model} | spec,
    }


def elsewhere(namespace: str) -> Manifest:
    """Return a model that lies in this namespace."""
    return MODEL | {"ref": MODEL["ref"] | {"namespace": namespace}}


async def is_bounded(client: Client, namespace: str) -> bool:
    """Tell whether the chart's policy about the namespace of an order's model is in force."""
    try:
        await client.create(order("early", namespace, elsewhere("kube-system")), dry_run=True)
    except Invalid:
        return True
    return False


async def until_unbounded(client: Client, namespace: str = "default") -> None:
    """Wait until that policy is in nobody's way: the API server knows a removed one for a while."""

    async def is_free() -> bool:
        return not await is_bounded(client, namespace)

    await eventually(is_free)
