"""What a setting does, and how a wrong one is refused."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.kit import helm

if TYPE_CHECKING:
    from pathlib import Path

S3 = {"bucket": "models", "endpoint": "https://s3.example.com", "credentialsSecretName": "s3-keys"}


def _container(objects: list[helm.Manifest], deployment: str) -> helm.Manifest:
    (container,) = helm.pod_templates(objects)[f"Deployment/{deployment}"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def _volume(objects: list[helm.Manifest], deployment: str, name: str) -> helm.Manifest:
    volumes: list[helm.Manifest] = helm.pod_templates(objects)[f"Deployment/{deployment}"]["spec"]["volumes"]
    (found,) = [volume for volume in volumes if volume["name"] == name]
    return found


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"artifacts": {}}, "artifacts.bucket is missing"),
        ({"artifacts": {"endpoint": "https://s3"}}, "artifacts.bucket is missing"),
        ({"artifacts": {"bucket": "abc"}}, "artifacts.endpoint is missing"),
        ({"artifacts": S3 | {"credentialsSecretName": ""}}, "artifacts.credentialsSecretName is missing"),
        ({"artifacts": S3 | {"capacityLimit": "5Gi"}}, "capacityLimit is not served by this version"),
        ({"delivery": {"type": "NodeCache"}}, "NodeCache is not served by this version"),
        ({"distribution": {"mode": "PublicCatalog"}}, "PublicCatalog is not served by this version"),
        ({"uploadGateway": {"publicURL": "http://x.example"}}, "upload tokens travel by https only"),
        ({"uploadGateway": {"ingress": {"enabled": True}}}, "uploadGateway.publicURL is missing"),
        ({"uploadGateway": {"httpRoute": {"parentRefs": [{"name": "x"}]}}}, "publicURL is missing"),
        ({"uploadGateway": {"publicURL": "https://10.0.0.1", "ingress": {"enabled": True}}}, "hosts by name"),
        ({"uploadGateway": {"publicURL": "https://x.test/a", "ingress": {"enabled": True}}}, "a path below"),
        ({"uploadGateway": {"httpRoute": {"parentRefs": [{"namespace": "x"}]}}}, "name"),
        (
            {"uploadGateway": {"publicURL": "https://x.test", "httpRoute": {"parentRefs": [{"name": "x"}]}}},
            "Install the definitions of Gateway API 1.4 or newer",
        ),
        ({"uploadGateway": {"ingress": {"tls": True}}}, "tls"),
        ({"logLevel": "info"}, "logLevel"),
        ({"replicas": 0}, "replicas"),
        ({"nodeSelector": {"pool": "not a value"}}, "nodeSelector"),
        ({"nodeSelector": {"not a key": ""}}, "not a key"),
        ({"tolerations": [{"key": "a", "effect": "Never"}]}, "tolerations"),
        ({"tolerations": [{"keys": "a"}]}, "tolerations"),
        ({"tolerations": [{"key": "a"}] * 33}, "tolerations"),
        ({"aiModels": {"tolerations": [{"key": "a", "effect": "Never"}]}}, "tolerations"),
        ({"artefacts": S3}, "artefacts"),
        ({"aiModels": {"delivery": {"type": "NodeCache"}}}, "NodeCache is not served by this version"),
        ({"aiModels": {"artifacts": {"bucket": "abc"}}}, "artifacts.endpoint is missing"),
    ],
)
def test_what_cannot_work_is_refused_with_words(values: dict[str, Any], words: str) -> None:
    with pytest.raises(helm.RenderError, match=words):
        helm.render(values)


def test_without_artifacts_the_store_is_a_claim_of_one_replica() -> None:
    objects = helm.render({"replicas": 3, "embeddedStore": {"size": "5Gi", "storageClassName": "fast"}})
    claim = helm.one(objects, "PersistentVolumeClaim", "dmcr-data")
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "5Gi"}},
    }
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    dmcr = helm.one(objects, "Deployment", "dmcr")["spec"]
    assert (dmcr["replicas"], dmcr["strategy"]) == (1, {"type": "Recreate"})
    assert (
        helm.environment(_container(objects, "ai-models-controller"))["AI_MODELS_EVALUATION_STORE"] == "true"
    )
    assert helm.one(objects, "Deployment", "ai-models-api")["spec"]["replicas"] == 3


def test_the_default_class_of_the_cluster_is_left_to_the_cluster() -> None:
    assert "storageClassName" not in helm.one(helm.render(), "PersistentVolumeClaim", "dmcr-data")["spec"]


def test_with_artifacts_the_store_is_the_bucket() -> None:
    objects = helm.render({"artifacts": S3 | {"caSecretName": "s3-ca"}, "replicas": 2})
    assert not [item for item in objects if item["kind"] == "PersistentVolumeClaim"]
    dmcr = helm.one(objects, "Deployment", "dmcr")["spec"]
    assert dmcr["replicas"] == 2
    assert "strategy" not in dmcr
    variables = helm.environment(_container(objects, "dmcr"))
    assert variables["DMCR_STORE"] == "s3://models"
    assert (
        helm.environment(_container(objects, "ai-models-controller"))["AI_MODELS_EVALUATION_STORE"] == "false"
    )
    keys, authority = _volume(objects, "dmcr", "s3")["projected"]["sources"]
    assert (keys["secret"]["name"], authority["secret"]["name"]) == ("s3-keys", "s3-ca")
    assert "optional" not in keys["secret"] | authority["secret"]
    assert not [key for key in variables if "SECRET" in key or "ACCESS" in key]


def test_the_authority_of_the_bucket_may_lie_beside_its_credentials() -> None:
    _, authority = _volume(helm.render({"artifacts": S3}), "dmcr", "s3")["projected"]["sources"]
    item = {"key": "ca.crt", "path": "ca.crt"}
    assert authority["secret"] == {"name": "s3-keys", "items": [item], "optional": True}


@pytest.mark.parametrize(
    ("setting", "modules", "cluster", "chosen"),
    [
        ("own", "module", "cluster", "own"),
        ("", "module", "cluster", "module"),
        ("", "", "cluster", "cluster"),
        ("", "", "", ""),
    ],
)
def test_the_class_for_shared_volumes_is_the_first_that_is_set(
    setting: str, modules: str, cluster: str, chosen: str
) -> None:
    values = {
        "delivery": {"sharedPVCStorageClassName": setting},
        "global": {"modules": {"storageClass": modules}, "defaultClusterStorageClass": cluster},
    }
    variables = helm.environment(_container(helm.render(values), "ai-models-controller"))
    assert variables["AI_MODELS_SHARED_PVC_STORAGE_CLASS"] == chosen


def test_the_gateway_is_reached_by_its_service_or_by_a_port_of_the_nodes() -> None:
    service = helm.one(helm.render(), "Service", "ai-models-upload-gateway")["spec"]
    assert "type" not in service
    assert service["ports"] == [{"name": "https", "port": 8443, "targetPort": "https"}]
    objects = helm.render({"uploadGateway": {"publicURL": "https://10.0.0.1:30443", "nodePort": 30443}})
    service = helm.one(objects, "Service", "ai-models-upload-gateway")["spec"]
    assert service["type"] == "NodePort"
    assert service["ports"][0]["nodePort"] == 30443
    variables = helm.environment(_container(objects, "ai-models-controller"))
    assert variables["AI_MODELS_PUBLIC_UPLOAD_URL"] == "https://10.0.0.1:30443"


@pytest.mark.parametrize("given", ["Debug", "Error"])
def test_the_log_level_reaches_every_process(given: str) -> None:
    objects = helm.render({"logLevel": given})
    for item in objects:
        if item["kind"] == "Deployment":
            variables = helm.environment(_container(objects, item["metadata"]["name"]))
            levels = {value for key, value in variables.items() if key.endswith("LOG_LEVEL")}
            assert levels == {given}, item["metadata"]["name"]


def test_one_image_serves_every_process_and_job() -> None:
    wanted = "registry.example.com/ai-models:7"
    objects = helm.render({"image": {"reference": wanted}, "imagePullSecrets": ["pull"]})
    templates = helm.pod_templates(objects).values()
    assert {c["image"] for template in templates for c in template["spec"]["containers"]} == {wanted}
    assert all(template["spec"]["imagePullSecrets"] == [{"name": "pull"}] for template in templates)
    assert helm.environment(_container(objects, "ai-models-controller"))["AI_MODELS_IMAGE"] == wanted
    for account in ("ai-models-publication", "ai-models-copy"):
        assert helm.one(objects, "ServiceAccount", account)["imagePullSecrets"] == [{"name": "pull"}]


def test_an_image_without_a_name_is_that_of_the_chart_s_version() -> None:
    version = yaml.safe_load((helm.CHART / "Chart.yaml").read_text())["appVersion"]
    assert _container(helm.render(), "dmcr")["image"] == f"ai-models:{version}"


def test_deckhouse_gives_image_and_namespace_and_needs_no_hook_for_labels() -> None:
    digest = "sha256:" + "0" * 64
    images = {"digests": {"aiModels": {"aiModels": digest}}, "registry": {"base": "registry.example.com/x"}}
    objects = helm.render({"global": {"modulesImages": images}, "aiModels": {"internal": {}}})
    assert _container(objects, "dmcr")["image"] == f"registry.example.com/x@{digest}"
    namespace = helm.one(objects, "Namespace", "d8-ai-models")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert not [item for item in objects if item["metadata"]["name"] == "ai-models-namespace"]


def test_a_token_of_the_kubernetes_api_is_mounted_only_where_it_is_used() -> None:
    templates = helm.pod_templates(helm.render())
    mounted = {name for name, t in templates.items() if t["spec"]["automountServiceAccountToken"]}
    assert mounted == {
        "Deployment/ai-models-controller",
        "Deployment/ai-models-api",
        "Deployment/dmcr",
        "Job/ai-models-namespace",
        "Job/ai-models-uninstall",
    }
    audiences = {
        name: source["serviceAccountToken"]["audience"]
        for name, t in templates.items()
        for volume in t["spec"].get("volumes", [])
        for source in volume.get("projected", {}).get("sources", [])
        if "serviceAccountToken" in source
    }
    assert audiences == {
        "Deployment/ai-models-controller": "dmcr",
        "Deployment/ai-models-upload-gateway": "dmcr",
    }


def test_the_webhook_asks_little_and_never_blocks_a_write() -> None:
    (webhook,) = helm.one(helm.render(), "MutatingWebhookConfiguration", "ai-models")["webhooks"]
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Ignore", 3)
    assert "caBundle" not in webhook["clientConfig"]
    assert webhook["clientConfig"]["service"] == {
        "name": "ai-models-controller",
        "namespace": "d8-ai-models",
        "port": 8080,
        "path": "/mutate-workload",
    }


def test_values_schema_and_deckhouse_settings_name_the_same_things() -> None:
    schema = json.loads((helm.CHART / "values.schema.json").read_text())
    names = set(schema["properties"]) - {"global", "aiModels"}
    assert set(schema["properties"]["aiModels"]["properties"]) - {"internal", "registry"} == names
    defaults = yaml.safe_load((helm.CHART / "values.yaml").read_text())
    assert set(defaults) | {"artifacts"} == names
    settings = yaml.safe_load((helm.CHART / "openapi/config-values.yaml").read_text())["properties"]
    platform = {"image", "imagePullSecrets", "replicas"}
    assert set(settings) == names - platform
    for name, default in defaults.items():
        if name in settings and "properties" in settings[name] and isinstance(default, dict):
            own = {key: value.get("default") for key, value in settings[name]["properties"].items()}
            assert own == default, name


def test_deckhouse_s_defaults_alone_render_what_plain_helm_renders(tmp_path: Path) -> None:
    bundle = tmp_path / "ai-models"
    shutil.copytree(helm.CHART, bundle, ignore=shutil.ignore_patterns("values.yaml", "values.schema.json"))
    schema = yaml.safe_load((helm.CHART / "openapi/config-values.yaml").read_text())
    alone = helm.render({"aiModels": _defaults(schema)}, chart=bundle)
    assert alone == helm.render({"aiModels": {}})


def _defaults(schema: dict[str, Any]) -> Any:
    if "properties" not in schema:
        return schema["default"]
    return {name: _defaults(inner) for name, inner in schema["properties"].items() if "default" in inner}


def test_every_setting_is_described_in_both_languages() -> None:
    english = yaml.safe_load((helm.CHART / "openapi/config-values.yaml").read_text())
    russian = yaml.safe_load((helm.CHART / "openapi/doc-ru-config-values.yaml").read_text())
    assert _described(english) == _described(russian)


def _described(schema: dict[str, Any], path: str = "") -> set[str]:
    found = {path} if "description" in schema else set()
    for name, inner in schema.get("properties", {}).items():
        found |= _described(inner, f"{path}.{name}")
    return found
