"""Every reason that an order on processors can have is met by a real order, or it is told why it cannot be.

All orders are of one namespace and made before the first test, so that they are looked at side by side.
"""

from __future__ import annotations

import ast
import asyncio
import signal
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from aiinference.api.classes import InferenceServiceClass
from aiinference.api.orders import InferenceService
from aiinference.api.reasons import OrderReason
from aimodels.api.model import Model
from kubekit.conditions import find
from kubekit.resources import Pod, custom
from tests.kit.controlplane import fresh_namespace
from tests.kit.eventually import eventually
from tests.kit.inferenceapi import order
from tests.kit.lookupworld import RESOLVED
from tests.kit.ordersworld import World, answering, tenancy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kubekit.client import Client
    from tests.kit.inferencecontroller import Controller

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[3]
NOW = datetime.now(UTC)
#: reasons of which nothing can be seen yet, and why
NOT_YET = {
    OrderReason.SCALING_HEALTHY: "no autoscaler is made yet",
    OrderReason.SCALING_LIMITED: "no autoscaler is made yet",
    OrderReason.METRICS_UNAVAILABLE: "no autoscaler is made yet",
    OrderReason.AUTH_SECRET_MISSING: "a model of a hub, which alone has such a Secret, is UnsupportedSource",
    OrderReason.AUTH_SECRET_KEY_MISSING: "a model of a hub is UnsupportedSource",
    OrderReason.ACCELERATOR_POLICY_VIOLATION: "a class that contradicts itself is ClassNotReady before",
}
_OUTAGES, _COPIED = (
    f"tests/component/orders/test_orders_{name}.py" for name in ("outages", "certificates_copied")
)
_NO_ANSWER = "test_an_order_waits_for_the_planner_and_goes_on_by_itself"
_COPY = "test_the_certificate_is_waited_for_copied_followed_and_goes_with_the_order"
#: reasons that other tests meet, as those need more of a world than this one: file and test
ELSEWHERE = {
    OrderReason.LAUNCH_PLAN_CALCULATED: (_OUTAGES, _NO_ANSWER),
    OrderReason.PLANNER_UNAVAILABLE: (_OUTAGES, _NO_ANSWER),
    OrderReason.PENDING: (_OUTAGES, "test_a_planner_that_hangs_keeps_no_other_order_waiting"),
    OrderReason.CATALOG_UNAVAILABLE: (_OUTAGES, "test_what_answers_outlives_all_that_it_once_asked"),
    OrderReason.INVENTORY_UNAVAILABLE: (
        "tests/unit/planner/test_planner_service.py",
        "test_an_inventory_that_cannot_be_read_is_no_lack_of_capacity",
    ),
    OrderReason.OBJECT_REFUSED: (
        "tests/component/orders/test_orders_upkeep.py",
        "test_pods_that_are_never_made_say_why_until_they_are",
    ),
    OrderReason.CERTIFICATE_MISSING: (_COPIED, _COPY),
    OrderReason.CERTIFICATE_INVALID: (_COPIED, _COPY),
    OrderReason.DOMAIN_MISSING: (
        "tests/component/api_inference/test_controller.py",
        "test_an_order_to_be_reached_from_outside_waits_for_a_domain",
    ),
}
#: reasons that tests of their own below meet
BELOW = (OrderReason.SERVICE_UNHEALTHY, OrderReason.CATALOG_DISABLED)


@dataclass(frozen=True)
class Case:
    """An order that gets a reason, and the condition that says so."""

    condition: str
    #: of the order's own model, beyond what every model has; None: it has none
    model: dict[str, Any] | None = field(default_factory=dict)
    size: int = 253_000_000
    published: bool = True
    #: what the order's own class says; None: the class of all others
    policies: dict[str, Any] | None = None
    spec: dict[str, Any] = field(default_factory=dict)
    #: the state of the runtime's container
    runtime: dict[str, Any] | None = None


def _ended(code: int, message: str = "", reason: str = "Error", lasted: float = 1) -> dict[str, Any]:
    begun, over = NOW - timedelta(seconds=lasted), NOW
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason,
            "message": message,
            "startedAt": begun.isoformat(timespec="seconds"),
            "finishedAt": over.isoformat(timespec="seconds"),
        }
    }


SMALL = {"modelPolicy": {"allowedEndpointTypes": ["Chat"], "maxParameterCount": "100M"}}
ACCELERATED = {"acceleratorPolicy": {"fallback": "CPU", "allowedDeviceClasses": ["large"]}}
CASES = {
    OrderReason.CLASS_NOT_FOUND: Case("ClassResolved", spec={"inferenceServiceClassName": "no-such"}),
    OrderReason.CLASS_NOT_READY: Case(
        "ClassResolved", policies={"scalingPolicy": {"allowedPriorityClassNames": ["no-such"]}}
    ),
    OrderReason.NAMESPACE_NOT_ALLOWED: Case(
        "ClassResolved", policies={"admissionPolicy": {"allowedNamespaces": ["elsewhere"]}}
    ),
    OrderReason.MODEL_NOT_FOUND: Case("ModelResolved", model=None),
    OrderReason.MODEL_NOT_READY: Case("ModelResolved", published=False),
    OrderReason.ENDPOINT_TYPE_NOT_SUPPORTED: Case(
        "ModelResolved", model={"supportedEndpointTypes": ["Rerank"]}
    ),
    OrderReason.PARAMETER_COUNT_EXCEEDED: Case("ModelResolved", policies=SMALL),
    OrderReason.PARAMETER_COUNT_UNKNOWN: Case(
        "ModelResolved", model={"parameterCount": None}, policies=SMALL
    ),
    OrderReason.UNSUPPORTED_SOURCE: Case(
        "ModelResolved", spec={"model": {"src": "HuggingFace", "ref": {"name": "acme/llm"}}}
    ),
    OrderReason.CLAIM_DEVICE_MISSING: Case(
        "Planned",
        policies=ACCELERATED,
        spec={"resources": {"accelerator": {"deviceClasses": ["other"]}}},
    ),
    OrderReason.NO_CAPACITY: Case("Planned", size=100 << 30, model={"facts": {}}),
    OrderReason.QUANTIZATION_MISMATCH: Case("Planned", model={"quantization": "Q9_Z"}),
    OrderReason.NO_COMPATIBLE_RUNTIME_AVAILABLE: Case("Planned", model={"format": "Safetensors"}),
    OrderReason.OBJECT_CONFLICT: Case("Ready"),
    OrderReason.UNSCHEDULABLE: Case("WorkloadReady"),
    OrderReason.MODEL_DELIVERY_PENDING: Case("WorkloadReady"),
    OrderReason.STARTING: Case("WorkloadReady", runtime={"running": {"startedAt": f"{NOW:%FT%TZ}"}}),
    OrderReason.IMAGE_PULL_FAILED: Case(
        "WorkloadReady", runtime={"waiting": {"reason": "ErrImagePull", "message": "no such host"}}
    ),
    OrderReason.OUT_OF_MEMORY: Case("WorkloadReady", runtime=_ended(137, reason="OOMKilled")),
    OrderReason.INVALID_ARGUMENT: Case(
        "WorkloadReady", runtime=_ended(2, "serve.py: error: unrecognized arguments: --no-such")
    ),
    OrderReason.RUNTIME_CRASHED: Case("WorkloadReady", runtime=_ended(1, "RuntimeError: it is broken")),
    OrderReason.STARTUP_DEADLINE_EXCEEDED: Case("WorkloadReady", runtime=_ended(137, lasted=100_000)),
    OrderReason.HEALTH_CHECK_FAILED: Case("Ready"),
    OrderReason.UPDATING: Case("RuntimeCurrent", policies={"updatePolicy": {"strategy": "OnDelete"}}),
    OrderReason.BUILT_IN_POLICY: Case("ClassResolved", spec={"inferenceServiceClassName": None}),
    OrderReason.CLASS_RESOLVED: Case("ClassResolved"),
    OrderReason.MODEL_RESOLVED: Case("ModelResolved"),
    OrderReason.RUNTIME_CURRENT: Case("RuntimeCurrent"),
    OrderReason.WORKLOAD_READY: Case("WorkloadReady"),
    OrderReason.READY: Case("Ready"),
}
NODE, NODES = "played", custom("", "v1", "Node", "nodes", namespaced=False)
#: failing for half a minute, asked every ten seconds
UNHEALTHY_WITHIN = 90
#: all orders begin at once
PATIENCE = 90
ANSWERING = (OrderReason.WORKLOAD_READY, OrderReason.READY)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(installation: tuple[Client, Controller], control_plane: Path) -> AsyncIterator[World]:
    client = installation[0]
    # It has no kubelet, and the scheduler is told to leave it alone.
    await client.create(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "spec": {"unschedulable": True}},
        kind=NODES,
    )
    with fresh_namespace(control_plane) as namespace:
        async with (
            tenancy(*installation, namespace) as made,
            answering() as well,
            answering() as ill,
        ):
            ill.works, made.within = False, PATIENCE
            await asyncio.gather(*(_make(made, reason, case) for reason, case in CASES.items()))
            for reason in ANSWERING:
                await made.run(_name(reason), well)
            await made.run(_name(OrderReason.HEALTH_CHECK_FAILED), ill)
            await _make(made, OrderReason.SERVICE_UNHEALTHY, Case("Ready"))
            await made.run(_name(OrderReason.SERVICE_UNHEALTHY), well)
            await made.says(_name(OrderReason.SERVICE_UNHEALTHY), "Ready", OrderReason.READY)
            # Another address is asked at once, not at the next turn.
            await made.run(_name(OrderReason.SERVICE_UNHEALTHY), ill)
            yield made
            await asyncio.gather(
                *(
                    made.client.delete(InferenceServiceClass, _class(made, reason))
                    for reason, case in CASES.items()
                    if case.policies
                )
            )
    await client.delete(NODES, NODE)


def _name(reason: OrderReason) -> str:
    return reason.lower()


def _class(world: World, reason: OrderReason) -> str:
    return f"{_name(reason)}-{world.namespace}"


async def _make(world: World, reason: OrderReason, case: Case) -> None:
    """Make model, class and order of one case, and play the kubelet where it is about that."""
    name = _name(reason)
    if reason is OrderReason.OBJECT_CONFLICT:
        metadata = {"namespace": world.namespace, "name": name}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata}
        await world.client.create(service | {"spec": {"ports": [{"port": 5432}]}})
    if case.model is not None:
        await _model(world, name, case)
    if case.policies:
        exposure = {"exposurePolicy": {"type": "ClusterLocal"}}
        await world.make_class(_class(world, reason), **exposure | case.policies)
    klass = _class(world, reason) if case.policies else world.klass
    model = {"src": "ai-models", "ref": {"kind": "Model", "name": name}}
    spec: dict[str, Any] = {"inferenceServiceClassName": klass, "model": model} | case.spec
    given = {field: value for field, value in spec.items() if value is not None and field != "model"}
    await world.client.create(order(name, world.namespace, spec["model"], **given))
    if case.runtime is not None:
        container = {"name": "runtime", "ready": False, "restartCount": 0, "image": "x", "imageID": "x"}
        await _play(world, name, containerStatuses=[container | {"state": case.runtime}])
    if reason is OrderReason.MODEL_DELIVERY_PENDING:
        message = 'persistentvolumeclaim "ai-model-llm-1" not found'
        await _play(world, name, scheduled={"status": "False", "reason": "Unschedulable", "message": message})
    if reason is OrderReason.UPDATING:
        await world.says(name, "WorkloadReady", "Unschedulable")
        body = {"spec": {"launchStrategy": "Throughput"}}
        await world.client.patch(InferenceService, name, body, namespace=world.namespace)


async def _model(world: World, name: str, case: Case) -> None:
    await world.model(name, ready=case.published)
    if case.model or case.size != Case.size:
        known = RESOLVED | (case.model or {})
        status = {"resolved": known, "artifact": {"sizeBytes": case.size}}
        await world.client.patch(
            Model, name, {"status": status}, namespace=world.namespace, subresource="status"
        )


async def _play(world: World, name: str, *, scheduled: dict[str, str] | None = None, **status: Any) -> None:
    """Write the status of an order's first Pod as scheduler and kubelet do."""

    pod = f"{name}-0"

    async def looked_at() -> bool:
        found = await world.client.find(Pod, pod, world.namespace)
        return found is not None and bool(found.status.conditions)

    await eventually(looked_at, within=world.within)
    # The scheduler has said its word, and leaves a Pod alone that is bound.
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
    path = f"{Pod.KIND.path(world.namespace, pod)}/binding"
    await world.client.request("POST", path, body=binding)
    condition = {"type": "PodScheduled", "lastTransitionTime": f"{NOW:%FT%TZ}"}
    status["conditions"] = [condition | (scheduled or {"status": "True"})]
    await world.client.patch(Pod, pod, {"status": status}, namespace=world.namespace, subresource="status")


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("reason", CASES)
async def test_a_real_order_meets_the_reason(world: World, reason: OrderReason) -> None:
    case = CASES[reason]
    found = await world.says(_name(reason), case.condition, reason)
    assert found.status is not None
    said = find(found.status.conditions, case.condition)
    assert said is not None
    assert said.message
    # A person sees the reason of what stands in the way in the summary too.
    summary = find(found.status.conditions, "Ready")
    assert summary is not None
    if said.status == "False" and case.condition != "RuntimeCurrent":
        assert summary.reason == reason


@pytest.mark.asyncio(loop_scope="session")
async def test_a_pod_that_is_made_anew_begins_its_start_anew(world: World) -> None:
    """What the earlier one's start took is gone, and the API server takes that."""
    name = _name(OrderReason.IMAGE_PULL_FAILED)
    await world.client.request(
        "DELETE", Pod.KIND.path(world.namespace, f"{name}-0"), params={"gracePeriodSeconds": "0"}
    )
    found = await world.says(name, "WorkloadReady", OrderReason.UNSCHEDULABLE)
    assert found.status is not None
    assert found.status.startup is not None
    assert (found.status.startup.phase, found.status.startup.seconds) == ("Scheduling", None)


@pytest.mark.asyncio(loop_scope="session")
async def test_an_api_that_has_answered_and_fails_for_a_while_is_unhealthy(world: World) -> None:
    async def failed() -> bool:
        found = await world.get(_name(OrderReason.SERVICE_UNHEALTHY))
        return found.status is not None and found.status.phase == "Failed"

    await eventually(failed, within=UNHEALTHY_WITHIN)
    await world.says(_name(OrderReason.SERVICE_UNHEALTHY), "Ready", OrderReason.SERVICE_UNHEALTHY)


@pytest.mark.asyncio(loop_scope="session")
async def test_without_the_catalogue_its_models_cannot_be_ordered(world: World) -> None:
    """Last of all, as the controller is another one afterwards."""
    await world.controller.end(signal.SIGTERM)
    world.controller._environ["AI_INFERENCE_CATALOG_MODE"] = "None"
    await world.controller.start()
    await world.order("disabled", "llm")
    await world.says("disabled", "ModelResolved", OrderReason.CATALOG_DISABLED)


def test_no_reason_is_left_out() -> None:
    assert sorted([*CASES, *NOT_YET, *ELSEWHERE, *BELOW]) == sorted(OrderReason)
    for reason, (file, test) in ELSEWHERE.items():
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        tree = ast.parse((ROOT / file).read_text())
        (found,) = [one for one in tree.body if isinstance(one, functions) and one.name == test]
        assert reason in _awaited(found), reason


def _awaited(test: ast.AST) -> set[object]:
    """Return the texts that a test compares with or waits for; other words of it do not count."""
    places: list[ast.AST] = []
    for node in ast.walk(test):
        if isinstance(node, ast.Compare):
            places += node.comparators
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"world.says", "waits"}:
            places += node.args
    return {one.value for place in places for one in ast.walk(place) if isinstance(one, ast.Constant)}
