"""What a setting of ai-inference does, how a wrong one is refused, and what processes make of theirs."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml

from aiinference.api.classes import InferenceServiceClass
from aiinference.classes import policy
from aiinference.processes import namespace
from aiinference.processes.planner import PlannerSettings
from aiinference.processes.settings import ControllerSettings
from opskit import logging, settings
from tests.kit import helm
from tests.kit.inferenceapi import CHART

if TYPE_CHECKING:
    from pathlib import Path

PROCESSES: dict[str, type[msgspec.Struct]] = {
    "Deployment/ai-inference-controller": ControllerSettings,
    "Deployment/ai-inference-planner": PlannerSettings,
    "Job/ai-inference-namespace": namespace.Settings,
}
OUTSIDE = {"domainTemplate": "%s.services.example.com", "ingressClass": "nginx"}
VALUES = [
    {},
    {"catalog": {"mode": "None"}, "logLevel": "Warn"},
    OUTSIDE | {"orders": {"tolerations": [{"operator": "Exists"}]}, "monitoring": {"namespaces": ["watch"]}},
]


def container(objects: list[helm.Manifest], process: str) -> helm.Manifest:
    (found,) = helm.pod_templates(objects)[process]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def controller(values: helm.Manifest) -> ControllerSettings:
    environment = helm.environment(
        container(helm.render(values, chart=CHART), "Deployment/ai-inference-controller")
    )
    return settings.load(ControllerSettings, environment, "AI_INFERENCE_")


@pytest.mark.parametrize("values", VALUES, ids=["defaults", "no catalogue", "outside"])
@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_understands_its_environment(process: str, values: helm.Manifest) -> None:
    made = container(helm.render(values, chart=CHART), process)
    loaded = settings.load(PROCESSES[process], helm.environment(made), "AI_INFERENCE_")
    mounted = [mount["mountPath"] for mount in made.get("volumeMounts", [])]
    for variable, value in helm.environment(made).items():
        if variable.endswith("_FILE"):
            assert any(value.startswith(f"{path}/") for path in mounted), variable
    logging.set_level(getattr(loaded, "log_level", "info"))


def test_the_catalogue_and_the_planner_are_where_the_settings_say() -> None:
    plain = controller({})
    assert plain.catalog_base_url + plain.catalog_path == (
        "https://ai-models-controller.d8-ai-models.svc.cluster.local:8080/api/internal/v1/models/lookup"
    )
    assert (plain.catalog_transport, plain.catalog_timeout_seconds) == ("Rest", 10)
    assert plain.planner_url == "https://ai-inference-planner.d8-ai-inference.svc:8443"
    assert plain.runtime_fallback
    lookup = {"baseURL": "https://other:8080", "path": "/x", "timeoutSeconds": 3, "notReadyRequeueSeconds": 5}
    internal = {
        "aiModels": {"catalogTransport": "Kubernetes", "catalogLookup": lookup},
        "planner": {"baseURL": "https://planner:1", "runtimeFallback": {"enabled": False}},
    }
    for values in (internal, {"aiInference": internal}):
        set_so = controller(values)
        assert set_so.catalog_base_url + set_so.catalog_path == "https://other:8080/x"
        assert (set_so.catalog_transport, set_so.catalog_timeout_seconds) == ("Kubernetes", 3)
        assert set_so.catalog_not_ready_requeue_seconds == 5
        assert (set_so.planner_url, set_so.runtime_fallback) == ("https://planner:1", False)


def test_deckhouse_gives_domain_class_and_certificates() -> None:
    https = {"mode": "CertManager", "certManager": {"clusterIssuerName": "letsencrypt"}}
    modules = {"publicDomainTemplate": "%s.example.com", "ingressClass": "nginx", "https": https}
    given = controller({"global": {"modules": modules}, "aiInference": {"internal": {}}})
    assert (given.domain_template, given.ingress_class) == ("%s.services.example.com", "nginx")
    assert (given.https_mode, given.https_cluster_issuer) == ("CertManager", "letsencrypt")
    assert given.monitoring_namespaces == ("d8-monitoring",)


def test_certificates_of_the_module_are_those_of_its_settings() -> None:
    plain = controller({})
    assert (plain.https_mode, plain.https_cluster_issuer, plain.https_secret) == (
        "CertManager",
        "selfsigned",
        "",
    )
    custom = controller({"https": {"mode": "CustomCertificate", "secretName": "wildcard"}})
    assert (custom.https_mode, custom.https_secret) == ("CustomCertificate", "wildcard")
    https = {"mode": "CustomCertificate", "customCertificate": {"secretName": "wildcard"}}
    given = controller({"global": {"modules": {"https": https}}, "aiInference": {}})
    assert (given.https_mode, given.https_secret) == ("CustomCertificate", "wildcard")


def test_orders_run_where_the_settings_say() -> None:
    tolerations = [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
    given = controller({"orders": {"nodeSelector": {"pool": "gpu"}, "tolerations": tolerations}})
    assert given.node_selector == {"pool": "gpu"}
    assert msgspec.to_builtins(given.tolerations) == tuple(tolerations)


def test_images_are_those_of_the_version_unless_given() -> None:
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    plain = controller({})
    assert (plain.gate_image, plain.images) == (f"gate:{version}", {"llama": f"llama:{version}"})
    given = controller({"images": {"gate": "r/gate:1", "llama": "r/llama:2"}})
    assert (given.gate_image, given.images) == ("r/gate:1", {"llama": "r/llama:2"})
    digests = {name: "sha256:" + str(n) * 64 for n, name in enumerate(("aiInference", "gate", "llama"))}
    images = {"digests": {"aiInference": digests}, "registry": {"base": "registry.example.com/x"}}
    objects = helm.render({"global": {"modulesImages": images}, "aiInference": {}}, chart=CHART)
    for process in ("controller", "planner"):
        image = container(objects, f"Deployment/ai-inference-{process}")["image"]
        assert image == f"registry.example.com/x@{digests['aiInference']}"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"logLevel": "info"}, "logLevel"),
        ({"replicas": 0}, "replicas"),
        ({"catalogue": {}}, "catalogue"),
        ({"catalog": {"mode": "Disabled"}}, "mode"),
        ({"aiModels": {"catalogTransport": "Grpc"}}, "catalogTransport"),
        ({"aiModels": {"catalogLookup": {"baseURL": "http://x"}}}, "baseURL"),
        ({"planner": {"baseURL": "http://x"}}, "baseURL"),
        ({"domainTemplate": "services.example.com"}, "domainTemplate"),
        ({"domainTemplate": "%s"}, "domainTemplate"),
        ({"https": {"mode": "LetsEncrypt"}}, "mode"),
        ({"https": {"mode": "CustomCertificate"}}, "secretName"),
        ({"https": {"clusterIssuerName": ""}}, "clusterIssuerName"),
        ({"aiInference": {"catalog": {"mode": "Off"}}}, "mode"),
    ],
)
def test_what_cannot_work_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(helm.RenderError, match=words):
        helm.render(values, chart=CHART)


def test_values_schema_and_deckhouse_settings_name_the_same_things() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    names = set(schema["properties"]) - {"global", "aiInference"}
    assert set(schema["properties"]["aiInference"]["properties"]) - {"internal", "registry"} == names
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(defaults) == names
    public = yaml.safe_load((CHART / "openapi/config-values.yaml").read_text())["properties"]
    internal = yaml.safe_load((CHART / "openapi/values.yaml").read_text())["properties"]
    assert set(public) == {"logLevel", "catalog"}
    assert set(internal) == {"internal", "registry", "aiModels", "planner"}
    for name, described in {**public, **internal}.items():
        if name in defaults:
            assert _defaults(described) == defaults[name], name


def test_deckhouse_s_defaults_alone_render_what_plain_helm_renders(tmp_path: Path) -> None:
    bundle = tmp_path / "ai-inference"
    shutil.copytree(CHART, bundle, ignore=shutil.ignore_patterns("values.yaml", "values.schema.json"))
    values: dict[str, Any] = {}
    for file in ("config-values", "values"):
        described = yaml.safe_load((CHART / f"openapi/{file}.yaml").read_text())
        values |= {
            name: _defaults(inner) for name, inner in described["properties"].items() if name != "registry"
        }
    alone = helm.render({"aiInference": values}, chart=bundle)
    assert alone == helm.render({"aiInference": {}}, chart=CHART)


def _defaults(schema: dict[str, Any]) -> Any:
    if "properties" not in schema:
        return schema["default"]
    return {name: _defaults(inner) for name, inner in schema["properties"].items() if "default" in inner}


def test_every_setting_is_described_in_both_languages() -> None:
    english = yaml.safe_load((CHART / "openapi/config-values.yaml").read_text())
    russian = yaml.safe_load((CHART / "openapi/doc-ru-config-values.yaml").read_text())
    assert _described(english) == _described(russian)


def _described(schema: dict[str, Any], path: str = "") -> set[str]:
    found = {path} if "description" in schema else set()
    for name, inner in schema.get("properties", {}).items():
        found |= _described(inner, f"{path}.{name}")
    return found


def test_an_order_without_a_class_is_exposed_as_under_the_shipped_one() -> None:
    shipped = helm.one(helm.render(chart=CHART), "InferenceServiceClass", "default-llm")
    under, without = (
        policy.effective(klass, policy.Https("Disabled"))
        for klass in (msgspec.convert(shipped, InferenceServiceClass), None)
    )
    assert without.exposure == under.exposure
    assert without.allowed_namespaces == under.allowed_namespaces
    assert (without.endpoint_types, without.accelerator) == ((), None)


def test_every_deployment_is_scraped_by_a_port_it_has() -> None:
    assert not {"PodMonitor", "PrometheusRule"} & {item["kind"] for item in helm.render(chart=CHART)}
    objects = helm.render(chart=CHART, api_versions=("monitoring.coreos.com/v1",))
    monitors = {item["metadata"]["name"]: item["spec"] for item in objects if item["kind"] == "PodMonitor"}
    assert set(monitors) == {item["metadata"]["name"] for item in objects if item["kind"] == "Deployment"}
    for name, monitor in monitors.items():
        (endpoint,) = monitor["podMetricsEndpoints"]
        ports = container(objects, f"Deployment/{name}")["ports"]
        assert endpoint["port"] in {port["name"] for port in ports}
