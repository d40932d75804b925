"""What Prometheus is told: only where it is, about metrics that exist, over ports that are there."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

import pytest
from prometheus_client import REGISTRY

import aimodels
from opskit import metrics
from tests.kit import helm

SERVED = ("monitoring.coreos.com/v1",)
KINDS = {"PodMonitor", "PrometheusRule"}
_METRIC = re.compile(r"d8_ai_models_[a-z_]+")


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


def _rules() -> list[dict[str, Any]]:
    groups = helm.one(helm.render(api_versions=SERVED), "PrometheusRule", "ai-models")["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.fixture(scope="module")
def known() -> set[str]:
    for module in pkgutil.walk_packages(aimodels.__path__, "aimodels."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    families = [*metrics.registry().collect(), *REGISTRY.collect()]
    return {family.name for family in families} | {f"{family.name}_total" for family in families}


def test_alerts_speak_of_metrics_that_exist(known: set[str]) -> None:
    named = {name for rule in _rules() for name in _METRIC.findall(rule["expr"])}
    assert named
    assert named - known == set()


def test_every_alert_is_named_once_and_says_what_to_do() -> None:
    names = [rule["alert"] for rule in _rules()]
    assert len(set(names)) == len(names)
    for rule in _rules():
        assert rule["alert"].startswith("D8AIModels")
        assert rule["for"]
        assert rule["labels"]["severity_level"]
        assert rule["annotations"]["summary"].endswith(".")
        assert "{{ " not in rule["annotations"]["description"]
