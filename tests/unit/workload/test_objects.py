from __future__ import annotations

import json
import re
from itertools import product
from typing import Any

import kubernetes_validate
import pytest

from aiinference.workload import build, gate, names, paths
from aiinference.workload.intent import Intent, Settings
from images import builds
from images.gate import __main__ as gate_program
from images.gate import config as gate_config
from tests.kit import orders, pod_security

FULL = Settings(
    gate_image="registry.example/gate:1",
    ingress_class="nginx",
    monitoring_namespaces=("d8-monitoring",),
    tolerations=({"key": "dedicated", "operator": "Exists"},),
    node_selector={"pool": "inference"},
    image_pull_secrets=("pull",),
)
INTENTS: dict[str, Intent] = {
    "token": orders.intent(),
    "open": orders.intent(policy=orders.policy(exposure=orders.exposure(authentication="None"))),
    "inside": orders.intent(
        policy=orders.policy(exposure=orders.exposure("ClusterLocal", mode=None)), host=None
    ),
    "class-less": orders.intent(endpoint_type=None, policy=orders.policy(class_name=None, endpoint_types=())),
    "cluster model": orders.intent(order=orders.order(kind="ClusterModel"), replicas=3),
    "priority": orders.intent(policy=orders.policy(priority_class="high", update_strategy="OnDelete")),
    "longest name": orders.intent(order=orders.order(metadata={"name": "a" * 52})),
}
#: of images/llama/serve.py, which cannot be imported without its engine
(SPARE_HTTP_THREADS,) = map(
    int,
    re.findall(r"^SPARE_HTTP_THREADS = (\d+)$", (builds.HERE / "llama/serve.py").read_text(), re.MULTILINE),
)
SETTINGS = {"least": orders.SETTINGS, "full": FULL}
EVERY = pytest.mark.parametrize(
    ("intent", "settings"),
    list(product(INTENTS.values(), SETTINGS.values())),
    ids=[f"{one}, {other}" for one, other in product(INTENTS, SETTINGS)],
)


def _one(intent: Intent, kind: str, settings: Settings = orders.SETTINGS) -> dict[str, Any]:
    (found,) = [made for made in build.objects(intent, settings) if made["kind"] == kind]
    return found


def _pod(intent: Intent, settings: Settings = orders.SETTINGS) -> dict[str, Any]:
    spec: dict[str, Any] = _one(intent, "StatefulSet", settings)["spec"]["template"]["spec"]
    return spec


@EVERY
@pytest.mark.parametrize("version", ["1.30", "1.36"])
def test_every_object_fits_the_schema(intent: Intent, settings: Settings, version: str) -> None:
    for manifest in build.objects(intent, settings):
        if manifest["kind"] != "PodMonitor":
            kubernetes_validate.validate(json.loads(json.dumps(manifest)), version, strict=True)


@EVERY
def test_every_pod_is_restricted(intent: Intent, settings: Settings) -> None:
    assert pod_security.violations(_one(intent, "StatefulSet", settings)["spec"]["template"]) == []


@EVERY
def test_everything_is_named_by_the_order_and_goes_with_it(intent: Intent, settings: Settings) -> None:
    for manifest in build.objects(intent, settings):
        head = manifest["metadata"]
        assert head["name"] in {intent.name, f"{intent.name}-auth-reader"}
        assert head["namespace"] == orders.NAMESPACE
        assert head["labels"].items() >= {"module": "ai-inference", names.ORDER_LABEL: intent.name}.items()
        (owner,) = head["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("InferenceService", intent.order.metadata.uid)


@EVERY
def test_every_selector_chooses_the_orders_pods(intent: Intent, settings: Settings) -> None:
    labels = _one(intent, "StatefulSet", settings)["spec"]["template"]["metadata"]["labels"]
    for manifest in build.objects(intent, settings):
        spec = manifest.get("spec", {})
        chosen = spec.get("podSelector") or spec.get("selector") or {}
        assert chosen.get("matchLabels", chosen).items() <= labels.items()


@EVERY
def test_every_mount_has_its_volume_and_every_volume_a_mount(intent: Intent, settings: Settings) -> None:
    pod = _pod(intent, settings)
    mounts = {m["name"] for c in (*pod["initContainers"], *pod["containers"]) for m in c["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["volumes"]}


def test_the_first_container_is_the_runtime_with_its_whole_line() -> None:
    runtime = _pod(orders.intent())["containers"][0]
    assert (runtime["name"], tuple(runtime["command"])) == ("runtime", orders.COMMAND)
    assert "args" not in runtime
    assert (
        runtime["resources"]["requests"]["memory"] == runtime["resources"]["limits"]["memory"] == str(1 << 30)
    )
    assert runtime["env"] == [{"name": "A", "value": "b"}, {"name": "LLAMA_LOG", "value": "1"}]
    assert "ports" not in runtime


def test_a_runtime_is_asked_through_the_gate_and_for_as_long_as_its_model_is_large() -> None:
    runtime = _pod(orders.intent(startup_seconds=302))["containers"][0]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert runtime[probe]["httpGet"] == {"path": "/health", "port": gate.API_PORT}
    start = runtime["startupProbe"]
    assert start["periodSeconds"] * start["failureThreshold"] >= 302
    assert start["periodSeconds"] * (start["failureThreshold"] - 1) < 302


def test_a_start_that_is_met_with_silence_ends_when_it_was_said_to() -> None:
    """A kubelet asks one after another: a question that may take longer than a period stretches the bound."""
    pod = _pod(orders.intent())
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["startupProbe"]["timeoutSeconds"] <= container["startupProbe"]["periodSeconds"]


@EVERY
def test_the_gate_starts_before_the_runtime_and_understands_what_it_is_told(
    intent: Intent, settings: Settings
) -> None:
    pod = _pod(intent, settings)
    (sidecar,) = pod["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["command"][:3] == ["/usr/bin/python3", "-m", "gate"]
    told = gate_program._parser().parse_args(sidecar["command"][3:])
    found = gate_program._settings(told)
    served = paths.of(intent.endpoint_type)
    assert [(route.method, route.path) for route in found.routes] == list(served)
    assert found.keys == intent.keys
    assert found.requests is not None
    assert found.client_requests * 2 <= found.requests < intent.plan.recipe.parallel + SPARE_HTTP_THREADS
    assert found.proxied == (intent.policy.exposure.type == "External")
    assert (told.port, told.metrics_port, told.drain_port) == (8000, 8002, 8003)
    mounted = {mount["mountPath"] for mount in sidecar["volumeMounts"]}
    assert mounted == {found.directory, *([str(told.keys)] if intent.keys else [])}
    assert pod["containers"][0]["lifecycle"]["preStop"]["httpGet"] == {"path": told.drain_path, "port": 8003}


def test_connections_with_all_their_headers_fit_into_the_gates_memory() -> None:
    (sidecar,) = _pod(orders.intent())["initContainers"]
    limit = int(sidecar["resources"]["limits"]["memory"].removesuffix("Mi")) << 20
    # Of a connection: its first buffer, pools, and what nginx keeps of it; and the programs themselves.
    each = (gate_config.HEADER_BUFFERS * gate_config.HEADER_BUFFER_KIB + 16) << 10
    assert gate_config.CONNECTIONS * each + (64 << 20) <= limit


def test_the_paths_that_are_asked_by_kubelets_are_those_of_the_gate() -> None:
    asked = (gate.ALIVE_PATH, gate.HEALTH_PATH, gate.METRICS_PATH)
    assert asked == (gate_config.ALIVE_PATH, gate_config.HEALTH_PATH, gate_config.METRICS_PATH)


def test_how_an_order_is_drained_cannot_be_guessed_from_its_name() -> None:
    other = orders.order(metadata={"uid": "00000000-0000-4000-8000-000000000002"})
    assert gate.pre_stop(orders.intent()) != gate.pre_stop(orders.intent(order=other))


def test_only_an_order_with_keys_has_a_role_that_reads_them() -> None:
    kinds = {kind: {m["kind"] for m in build.objects(INTENTS[kind], FULL)} for kind in INTENTS}
    assert ("Role" in kinds["token"], "Role" in kinds["open"]) == (True, False)
    assert not any("Secret" in found for found in kinds.values())
    (rule,) = _one(orders.intent(), "Role")["rules"]
    assert (rule["resourceNames"], rule["verbs"]) == (["support-llm-auth"], ["get"])


@pytest.mark.parametrize(("kind", "annotation"), [("Model", "model"), ("ClusterModel", "clustermodel")])
def test_the_model_is_asked_for_on_the_workload_itself(kind: str, annotation: str) -> None:
    workload = _one(orders.intent(order=orders.order(kind=kind)), "StatefulSet")
    wanted = {name: value for name, value in workload["metadata"]["annotations"].items() if "model" in name}
    assert wanted == {f"ai.deckhouse.io/{annotation}": "llm"}
    assert workload["spec"]["template"]["metadata"]["annotations"] == {names.PLAN_ANNOTATION: orders.DIGEST}


@pytest.mark.parametrize(
    ("strategy", "written"),
    [("RollingUpdate", "RollingUpdate"), ("Recreate", "RollingUpdate"), ("OnDelete", "OnDelete")],
)
def test_how_replicas_are_replaced(strategy: str, written: str) -> None:
    spec = _one(orders.intent(policy=orders.policy(update_strategy=strategy)), "StatefulSet")["spec"]
    assert (spec["updateStrategy"], spec["podManagementPolicy"]) == ({"type": written}, "Parallel")


def test_the_service_leads_to_the_gate() -> None:
    service = _one(orders.intent(), "Service")["spec"]
    assert service["ports"] == [{"name": "service-port", "port": 80, "targetPort": 8000, "protocol": "TCP"}]


def test_metrics_are_read_from_a_port_of_the_gate_that_only_monitoring_reaches() -> None:
    (endpoint,) = _one(orders.intent(), "PodMonitor", FULL)["spec"]["podMetricsEndpoints"]
    (sidecar,) = _pod(orders.intent())["initContainers"]
    ports = {port["name"]: port["containerPort"] for port in sidecar["ports"]}
    anybody, monitoring = _one(orders.intent(), "NetworkPolicy", FULL)["spec"]["ingress"]
    assert [port["port"] for port in anybody["ports"]] == [ports["api"]]
    assert "from" not in anybody
    assert [port["port"] for port in monitoring["ports"]] == [ports[endpoint["port"]]]
    assert len(monitoring["from"]) == 1
    assert _one(orders.intent(), "NetworkPolicy")["spec"]["ingress"] == [anybody]


def test_nothing_goes_out_from_a_runtime() -> None:
    spec = _one(orders.intent(), "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in spec


def test_every_endpoint_type_has_paths_and_an_order_without_a_class_has_them_all() -> None:
    chat, vectors, scores = (set(paths.of(kind)) for kind in ("Chat", "Embeddings", "Rerank"))
    assert paths.MODELS in chat & vectors & scores
    assert not (chat & vectors) - {paths.MODELS}
    assert set(paths.of(None)) == chat | vectors | scores
    with pytest.raises(KeyError):
        paths.of("Speech")
