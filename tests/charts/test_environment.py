"""Every process understands the environment that the chart gives it, and is given all that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aimodels.dmcr.settings import Settings as DmcrSettings
from aimodels.processes import namespace, uninstall
from aimodels.processes.settings import ApiSettings, ControllerSettings
from aimodels.upload.settings import Settings as UploadSettings
from kubekit.placement import Placement
from opskit import logging, settings
from tests.kit import helm

if TYPE_CHECKING:
    import msgspec

S3 = {"bucket": "models", "endpoint": "https://s3.example.com", "credentialsSecretName": "s3-keys"}
PROCESSES: dict[str, tuple[str, type[msgspec.Struct]]] = {
    "Deployment/ai-models-api": ("AI_MODELS_", ApiSettings),
    "Deployment/ai-models-controller": ("AI_MODELS_", ControllerSettings),
    "Deployment/ai-models-upload-gateway": ("UPLOAD_", UploadSettings),
    "Deployment/dmcr": ("DMCR_", DmcrSettings),
    "Job/ai-models-namespace": ("AI_MODELS_", namespace.Settings),
    "Job/ai-models-uninstall": ("AI_MODELS_", uninstall.Settings),
}
PLACED = {
    "nodeSelector": {"node-role.example.com/models": "", "pool": "true"},
    "tolerations": [
        {"key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    ],
}
VALUES = [
    {},
    {"artifacts": S3, "logLevel": "Warn"},
    {"uploadGateway": {"publicURL": "https://models.example.com", "caSecretName": "authority"}},
    PLACED,
]


@pytest.mark.parametrize("values", VALUES, ids=["defaults", "s3", "public", "placed"])
@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_understands_its_environment(process: str, values: helm.Manifest) -> None:
    prefix, kind = PROCESSES[process]
    (container,) = helm.pod_templates(helm.render(values))[process]["spec"]["containers"]
    loaded = settings.load(kind, helm.environment(container), prefix)
    mounted = {mount["mountPath"] for mount in container.get("volumeMounts", [])}
    for variable, value in helm.environment(container).items():
        if value.startswith("/"):
            assert any(f"{value}/".startswith(f"{path}/") for path in mounted), variable
    logging.set_level(getattr(loaded, "log_level", "info"))


def test_the_store_is_where_the_volume_is() -> None:
    (container,) = helm.pod_templates(helm.render())["Deployment/dmcr"]["spec"]["containers"]
    loaded = settings.load(DmcrSettings, helm.environment(container), "DMCR_")
    assert (loaded.auth, loaded.store) == ("grants", "file:///var/lib/dmcr")
    assert "/var/lib/dmcr" in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert loaded.address() == ("::", container["ports"][0]["containerPort"])


def test_the_keys_of_the_bucket_come_as_files() -> None:
    (container,) = helm.pod_templates(helm.render({"artifacts": S3 | {"usePathStyle": False}}))[
        "Deployment/dmcr"
    ]["spec"]["containers"]
    s3 = settings.load(DmcrSettings, helm.environment(container), "DMCR_").s3()
    assert (s3.endpoint, s3.region, s3.path_style) == ("https://s3.example.com", "us-east-1", False)
    assert str(s3.credentials_directory) == "/etc/ai-models/s3"
    assert (s3.access_key, s3.secret_key) == ("", "")


def test_jobs_run_where_the_modules_own_pods_do() -> None:
    objects = helm.pod_templates(helm.render(PLACED))
    (container,) = objects["Deployment/ai-models-controller"]["spec"]["containers"]
    given = settings.load(ControllerSettings, helm.environment(container), "AI_MODELS_")
    placement = Placement(given.node_selector, given.tolerations).fields()
    assert placement == PLACED
    for name, template in objects.items():
        assert {field: template["spec"].get(field) for field in PLACED} == PLACED, name
