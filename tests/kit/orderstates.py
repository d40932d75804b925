"""Observations of orders for tests of what is decided and said."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from aiinference.classes.policy import Accelerator, Exposure, Https
from aiinference.models.matrix import resolve
from aiinference.models.outcomes import Resolution
from aiinference.models.resolving import ResolvedModel
from aiinference.orders.state import Halt, Observation, Resolved
from aiinference.planner.asking import launch_request
from aiinference.planner.contract import LaunchPlan
from aiinference.planner.plan import Recipes, on_processor
from aiinference.probes.health import Health
from aiinference.recipes.catalogue import shipped
from aiinference.workload import frozen, names
from kubekit.resources import Pod, StatefulSet
from kubekit.resources.meta import ObjectMeta
from modelkit.facts import Geometry
from tests.kit.ordersmodels import model_facts, order, policy

if TYPE_CHECKING:
    from aiinference.api.orders import InferenceService, InferenceServiceStatus
    from aiinference.api.reasons import OrderCondition, OrderReason
    from aiinference.classes.policy import EffectivePolicy
    from aiinference.workload.intent import Intent

#: a template whose Pods ask for a key
KEYED = {"spec": {"volumes": [{"name": "tmp"}, {"name": "keys"}]}}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
FACTS = model_facts(
    "qwen",
    size_bytes=253_000_000,
    format="GGUF",
    family="qwen2",
    architecture="qwen2",
    parameter_count=494_032_768,
    quantization="Q4_K_M",
    context_window_tokens=32768,
    supported_endpoint_types=("Chat",),
    facts=Geometry(layers=24),
)


def accelerated(**more: Any) -> EffectivePolicy:
    """Return the policy of a class with an accelerator policy."""
    return replace(policy("gpu", "Chat"), accelerator=Accelerator(**more))


def external(mode: str = "CertManager") -> EffectivePolicy:
    """Return the policy of a class whose orders are reached from outside, with a key."""
    return replace(policy("open", "Chat"), exposure=Exposure("External", "Token", Https(mode, "issuer")))


def planned(held: EffectivePolicy | None = None, ordered: InferenceService | None = None) -> Resolved:
    """Return what is resolved when nothing stands in the way."""
    held, ordered = held or policy("llm", "Chat"), ordered or order("qwen")
    resolution = resolve(held, FACTS, ordered)
    assert isinstance(resolution, Resolution)
    plan = on_processor(launch_request(ordered, held, FACTS, resolution), Recipes(shipped(), {"llama": "x"}))
    assert isinstance(plan, LaunchPlan)
    return Resolved(None, held, ResolvedModel(FACTS, resolution), plan)


def stopped(
    condition: OrderCondition,
    reason: OrderReason,
    *,
    outage: bool = False,
    held: EffectivePolicy | None = None,
) -> Resolved:
    """Return what is resolved when the sequence stops at a condition."""
    return Resolved(Halt(condition, reason, "Because.", outage=outage), held)


def workload(
    wanted: Intent | None = None, *, ready: int = 0, updated: int = 1, replicas: int = 1, **more: Any
) -> StatefulSet:
    """Return a StatefulSet that runs as intended, by the template that it has noted if it has."""
    noted = {names.CLUSTER_MODEL_ANNOTATION: "qwen"}
    if wanted is not None:
        noted[names.LAUNCH_ANNOTATION] = frozen.launch_digest(wanted)
    metadata = ObjectMeta(
        name="support-llm",
        namespace="support",
        generation=1,
        labels=names.labels("support-llm"),
        annotations=noted | more.pop("noted", {}),
    )
    found = StatefulSet(metadata=metadata)
    status = msgspec.structs.replace(
        found.status,
        observed_generation=1,
        replicas=replicas,
        ready_replicas=ready,
        updated_replicas=updated,
    )
    template = more.pop("template", None) or frozen.template(metadata.annotations) or {}
    spec = msgspec.structs.replace(found.spec, replicas=replicas, template=template)
    return msgspec.structs.replace(found, spec=spec, status=status)


def pod(**status: Any) -> Pod:
    """Return a Pod of the order with a status in the words of the API."""
    raw = {"metadata": {"name": "support-llm-0", "namespace": "support"}, "status": status}
    return msgspec.convert(raw, Pod)


def observed(
    resolved: Resolved | None = None,
    *,
    running: StatefulSet | None = None,
    pods: tuple[Pod, ...] = (),
    health: Health | None = None,
    host: str | None = None,
    earlier: InferenceServiceStatus | None = None,
    refused: str = "",
) -> Observation:
    """Return an observation of an order that nothing stands in the way of, unless told otherwise."""
    ordered = msgspec.structs.replace(order("qwen"), status=earlier)
    return Observation(
        order=ordered,
        resolved=resolved or planned(),
        host=host,
        workload=running,
        pods=pods,
        secret=None,
        health=health or Health(),
        refused=refused,
    )
