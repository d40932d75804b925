"""What Prometheus is told: only where it is, about metrics that exist, over ports that are there."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

import pytest
from prometheus_client import REGISTRY

from opskit import metrics
from tests.kit import helm

SERVED = ("monitoring.coreos.com/v1",)
KINDS = {"PodMonitor", "PrometheusRule"}
_METRIC = re.compile(r"d8_[a-z_]+")


def _kinds(objects: list[helm.Manifest]) -> set[str]:
    return {item["kind"] for item in objects} & KINDS


def test_prometheus_is_not_assumed() -> None:
    assert _kinds(helm.render()) == set()
    assert _kinds(helm.render(api_versions=SERVED)) == KINDS


def test_every_deployment_is_scraped_by_a_port_it_has() -> None:
    objects = helm.render(api_versions=SERVED)
    monitors = {item["metadata"]["name"]: item["spec"] for item in objects if item["kind"] == "PodMonitor"}
    deployments = [item["metadata"]["name"] for item in objects if item["kind"] == "Deployment"]
    assert set(monitors) == set(deployments)
    for name, monitor in monitors.items():
        assert monitor["selector"]["matchLabels"] == {"app": name}
        (container,) = helm.pod_templates(objects)[f"Deployment/{name}"]["spec"]["containers"]
        (endpoint,) = monitor["podMetricsEndpoints"]
        assert endpoint["port"] in {port["name"] for port in container["ports"]}
        assert (endpoint.get("scheme") == "https") == (endpoint["port"] == "https")


PRODUCTS = ["ai-models", "ai-inference"]


def _rules(product: str) -> list[dict[str, Any]]:
    objects = helm.render(chart=helm.CHART.with_name(product), api_versions=SERVED)
    groups = helm.one(objects, "PrometheusRule", product)["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


def _known(product: str) -> set[str]:
    package = importlib.import_module(product.replace("-", ""))
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    metrics.belong_to(product.replace("-", "_"))
    try:
        families = [*metrics.registry().collect(), *REGISTRY.collect()]
    finally:
        metrics.belong_to("ai_models")
    return {family.name for family in families} | {f"{family.name}_total" for family in families}


@pytest.mark.parametrize("product", PRODUCTS)
def test_alerts_speak_of_metrics_that_exist(product: str) -> None:
    named = {name for rule in _rules(product) for name in _METRIC.findall(rule["expr"])}
    assert named
    assert named - _known(product) == set()


@pytest.mark.parametrize("product", PRODUCTS)
def test_every_alert_is_named_once_and_says_what_to_do(product: str) -> None:
    rules = _rules(product)
    names = [rule["alert"] for rule in rules]
    assert len(set(names)) == len(names)
    for rule in rules:
        assert rule["alert"].startswith({"ai-models": "D8AIModels", "ai-inference": "D8AIInference"}[product])
        assert rule["for"]
        assert rule["labels"]["severity_level"]
        assert rule["annotations"]["summary"].endswith(".")
        assert "{{ " not in rule["annotations"]["description"]
