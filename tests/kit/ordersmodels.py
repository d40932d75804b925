"""Orders, policies and facts for tests of what an order's model becomes."""

from __future__ import annotations

from typing import Any

from aiinference.api.orders import InferenceService, InferenceServiceSpec, ModelRef, OrderedModel
from aiinference.api.reasons import ModelScope
from aiinference.classes.policy import EffectivePolicy, Exposure
from aiinference.models.facts import ModelFacts
from kubekit.resources.meta import ObjectMeta

DIGEST = "sha256:" + "a" * 64
DEFAULT_TYPES = ("Chat", "Embeddings", "Rerank")


def order(
    name: str = "lm",
    *,
    src: str = "ai-models",
    kind: str | None = "ClusterModel",
    of_namespace: str | None = None,
    namespace: str = "support",
    parameter_count: int | str | None = None,
) -> InferenceService:
    """Return an order for a model."""
    ref = ModelRef(kind=kind, namespace=of_namespace, name=name)
    model = OrderedModel(src=src, ref=ref, parameter_count=parameter_count)
    return InferenceService(
        metadata=ObjectMeta(name="support-llm", namespace=namespace), spec=InferenceServiceSpec(model=model)
    )


def policy(
    class_name: str | None = "llm", *types: str, max_parameter_count: int | None = None
) -> EffectivePolicy:
    """Return what a class says of models; an order without a class has no types."""
    return EffectivePolicy(
        class_name=class_name,
        endpoint_types=(types or DEFAULT_TYPES) if class_name else (),
        max_parameter_count=max_parameter_count,
        exposure=Exposure("ClusterLocal", "None"),
        accelerator=None,
        allowed_namespaces=None,
        priority_class=None,
        min_replicas=1,
        max_replicas=1,
        update_strategy="RollingUpdate",
    )


def model_facts(name: str = "lm", namespace: str | None = None, **known: Any) -> ModelFacts:
    """Return the facts of a model that is ready; of a ClusterModel when there is no namespace."""
    scope = ModelScope.NAMESPACED if namespace else ModelScope.CLUSTER
    always: dict[str, Any] = {"ready": True, "reason": "Ready", "digest": DIGEST, "size_bytes": 1}
    return ModelFacts(scope=scope, name=name, namespace=namespace, **(always | known))
