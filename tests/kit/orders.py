"""Orders with their policy and plan, as builders take them; every part can be given."""

from __future__ import annotations

from typing import Any

import msgspec

from aiinference.api.orders import InferenceService
from aiinference.classes.policy import EffectivePolicy, Exposure, Https
from aiinference.planner.contract import LaunchPlan
from aiinference.workload.intent import Intent, Settings

NAMESPACE, NAME = "team", "support-llm"
DIGEST = f"sha256:{'1' * 64}"
SETTINGS = Settings(gate_image="registry.example/gate:1")
COMMAND = (
    *("/usr/bin/python3", "/opt/llama/serve.py", "--model", "/data/modelcache/models/llm", "--alias", "llm"),
    *("--host", "127.0.0.1", "--port", "8001", "--ctx-size", "4096", "--parallel", "2", "--metrics"),
)


def order(**changes: Any) -> InferenceService:
    """Return an order of a Model under a class."""
    metadata = {
        "name": NAME,
        "namespace": NAMESPACE,
        "uid": "00000000-0000-4000-8000-000000000001",
        "annotations": changes.pop("annotations", {}),
    } | changes.pop("metadata", {})
    model = {"src": "ai-models", "ref": {"kind": changes.pop("kind", "Model"), "name": "llm"}}
    spec = {"inferenceServiceClassName": "default-llm", "model": model, **changes}
    return msgspec.convert({"metadata": metadata, "spec": spec}, InferenceService)


def exposure(
    kind: str = "External", authentication: str = "Token", mode: str | None = "CertManager"
) -> Exposure:
    """Return how an order is reached."""
    https = Https(mode, cluster_issuer_name="issuer" if mode == "CertManager" else None) if mode else None
    return Exposure(type=kind, authentication=authentication, https=https)


def policy(**changes: Any) -> EffectivePolicy:
    """Return a policy like that of the class that is shipped."""
    fields: dict[str, Any] = {
        "class_name": "default-llm",
        "endpoint_types": ("Chat",),
        "max_parameter_count": None,
        "exposure": exposure(),
        "accelerator": None,
        "allowed_namespaces": None,
        "priority_class": None,
        "min_replicas": 1,
        "max_replicas": 2,
        "update_strategy": "RollingUpdate",
    }
    return EffectivePolicy(**fields | changes)


def plan(**changes: Any) -> LaunchPlan:
    """Return a plan of the processor family."""
    recipe = {
        "name": "llama-cpu",
        "engine": "llama.cpp",
        "engineVersion": "b11549",
        "image": "registry.example/llama:1",
        "command": COMMAND,
        "env": {"LLAMA_LOG": "1", "A": "b"},
        "resources": {"cpu": "2", "memoryBytes": 1 << 30},
        "ports": {"http": 8001},
        "modelPath": "/data/modelcache/models/llm",
        "contextTokens": 2048,
        "parallel": 2,
    }
    need = {
        "weightsBytes": 1,
        "kvBytes": 1,
        "computeBytes": 1,
        "cacheBytes": 1,
        "overheadBytes": 1,
        "totalBytes": 5,
        "source": "geometry",
    }
    body = {
        "outcome": "Planned",
        "resolved": {"deviceClass": "cpu"},
        "recipe": recipe | changes.pop("recipe", {}),
        "recipeSource": "compiled",
        "need": need,
        "digest": DIGEST,
    }
    return msgspec.convert(body | changes, LaunchPlan)


def intent(**changes: Any) -> Intent:
    """Return everything that decides what an order runs as."""
    fields: dict[str, Any] = {
        "order": order(),
        "policy": policy(),
        "plan": plan(),
        "asked": f"sha256:{'a' * 64}",
        "endpoint_type": "Chat",
        "host": "support-llm.services.example.com",
        "startup_seconds": 302,
        "replicas": 1,
    }
    return Intent(**fields | changes)
