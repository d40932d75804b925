"""The chart renders for every way to set it up, into objects that Kubernetes accepts."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest

from tests.kit import helm, inferenceapi, pod_security

if TYPE_CHECKING:
    from pathlib import Path

S3 = {"bucket": "models", "endpoint": "https://s3.example.com", "credentialsSecretName": "s3-keys"}
SERVED = ("monitoring.coreos.com/v1", helm.ROUTES)
DECKHOUSE = {
    "global": {
        "deckhouseVersion": "v1.74.0",
        "modules": {"storageClass": "global-class"},
        "modulesImages": {
            "digests": {"aiModels": {"aiModels": "sha256:" + "0" * 64}},
            "registry": {"base": "registry.example.com/modules/ai-models"},
        },
    },
    "aiModels": {"logLevel": "Debug", "internal": {}},
}
MATRIX: dict[str, dict[str, Any]] = {
    "defaults": {},
    "s3": {"artifacts": S3},
    "s3 with a private authority": {
        "artifacts": S3 | {"caSecretName": "s3-ca", "usePathStyle": False, "region": "eu-1"}
    },
    "s3, three replicas": {"artifacts": S3, "replicas": 3},
    "embedded, three replicas": {"replicas": 3},
    "gateway on the nodes": {"uploadGateway": {"publicURL": "https://10.200.0.1:30443", "nodePort": 30443}},
    "gateway behind an ingress": {
        "uploadGateway": {
            "publicURL": "https://ai-models.example.com",
            "ingress": {"enabled": True, "className": "nginx", "clusterIssuerName": "letsencrypt"},
            "httpRoute": {"parentRefs": [{"name": "public", "namespace": "ingress"}]},
        }
    },
    "classes and sizes": {
        "embeddedStore": {"size": "1.5Ti", "storageClassName": "fast"},
        "delivery": {"sharedPVCStorageClassName": "rwx"},
    },
    "placement and registry": {
        "image": {"reference": "registry.example.com/ai-models@sha256:" + "1" * 64, "pullPolicy": "Always"},
        "imagePullSecrets": ["pull"],
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    },
    "deckhouse": DECKHOUSE,
}
INFERENCE: dict[str, dict[str, Any]] = {
    "inference": {},
    "inference without the catalogue": {"catalog": {"mode": "None"}},
    "inference, reached from outside": {
        "domainTemplate": "%s.services.example.com",
        "ingressClass": "nginx",
        "https": {"mode": "CustomCertificate", "secretName": "wildcard"},
    },
    "inference, placement and registry": MATRIX["placement and registry"]
    | {"replicas": 3, "images": {"gate": "r/gate@sha256:1", "llama": "r/llama@sha256:2"}},
    "inference on other nodes": {
        "orders": {"nodeSelector": {"pool": "gpu"}, "tolerations": [{"operator": "Exists"}]},
        "monitoring": {"namespaces": ["monitoring"]},
    },
    "inference under deckhouse": {"aiInference": {"logLevel": "Debug", "internal": {}}},
}
#: Kinds whose schema Kubernetes itself does not know.
FOREIGN = {
    "BackendTLSPolicy",
    "CustomResourceDefinition",
    "HTTPRoute",
    "InferenceServiceClass",
    "PodMonitor",
    "PrometheusRule",
}

CASES = [
    *(pytest.param(helm.CHART, values, id=name) for name, values in MATRIX.items()),
    *(pytest.param(inferenceapi.CHART, values, id=name) for name, values in INFERENCE.items()),
]
pytestmark = pytest.mark.parametrize(("chart", "values"), CASES)


@pytest.mark.parametrize("version", ["1.30", "1.36"])
def test_every_object_fits_the_schema(chart: Path, values: dict[str, Any], version: str) -> None:
    for manifest in helm.render(values, chart=chart, api_versions=SERVED):
        if manifest["kind"] not in FOREIGN:
            _validate(json.dumps(manifest, sort_keys=True), version)


@cache
def _validate(manifest: str, version: str) -> None:
    kubernetes_validate.validate(json.loads(manifest), version, strict=True)


def test_every_pod_is_restricted(chart: Path, values: dict[str, Any]) -> None:
    templates = helm.pod_templates(helm.render(values, chart=chart, api_versions=SERVED))
    assert f"Deployment/{chart.name}-controller" in templates
    assert [(name, found) for name, t in templates.items() if (found := pod_security.violations(t))] == []


def test_every_object_is_named_once_and_labelled(chart: Path, values: dict[str, Any]) -> None:
    objects = helm.render(values, chart=chart, api_versions=SERVED)
    keys = Counter(
        (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in objects
    )
    assert [key for key, count in keys.items() if count > 1] == []
    for item in objects:
        labels = item["metadata"].get("labels", {})
        assert (labels.get("heritage"), labels.get("module")) == ("deckhouse", chart.name), item["metadata"][
            "name"
        ]
        assert item["metadata"].get("namespace") in {None, f"d8-{chart.name}"}


def test_selectors_choose_the_pods_they_mean(chart: Path, values: dict[str, Any]) -> None:
    objects = helm.render(values, chart=chart, api_versions=SERVED)
    labels = {name: template["metadata"]["labels"] for name, template in helm.pod_templates(objects).items()}
    for item in objects:
        selector = item.get("spec", {}).get("selector")
        if item["kind"] not in {"Service", "Deployment"}:
            continue
        wanted = selector.get("matchLabels", selector)
        chosen = [name for name, given in labels.items() if wanted.items() <= given.items()]
        assert len(chosen) == 1, item["metadata"]["name"]
        if item["kind"] == "Service":
            (template,) = [t for n, t in helm.pod_templates(objects).items() if n in chosen]
            ports = {port["name"] for c in template["spec"]["containers"] for port in c["ports"]}
            assert {port["targetPort"] for port in item["spec"]["ports"]} <= ports


def test_every_long_running_container_is_probed_over_a_port_it_has(
    chart: Path, values: dict[str, Any]
) -> None:
    for name, template in helm.pod_templates(helm.render(values, chart=chart, api_versions=SERVED)).items():
        if name.startswith("Job/"):
            continue
        for container in template["spec"]["containers"]:
            ports = {port["name"] for port in container["ports"]}
            for probe in ("livenessProbe", "readinessProbe"):
                assert container[probe]["httpGet"]["port"] in ports, (name, probe)


def test_every_mount_has_its_volume_and_every_volume_a_mount(chart: Path, values: dict[str, Any]) -> None:
    for name, template in helm.pod_templates(helm.render(values, chart=chart, api_versions=SERVED)).items():
        volumes = {volume["name"] for volume in template["spec"].get("volumes", [])}
        mounts = {m["name"] for c in template["spec"]["containers"] for m in c.get("volumeMounts", [])}
        assert mounts == volumes, name


def test_no_secret_is_in_the_chart(chart: Path, values: dict[str, Any]) -> None:
    assert [
        item for item in helm.render(values, chart=chart, api_versions=SERVED) if item["kind"] == "Secret"
    ] == []
