"""The API of ai-inference on a real API server: its CRDs, its admission policy, and objects to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiinference.api.fields import API_VERSION

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
