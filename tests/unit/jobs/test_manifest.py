"""The Pods of Jobs: restricted, placed, with the environment that their programs understand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest

from aimodels.catalog.job import publication_job
from aimodels.catalog.names import Key
from aimodels.delivery import claims
from aimodels.delivery.claims import Contents
from aimodels.delivery.copy.settings import Settings as CopySettings
from aimodels.delivery.job import copy_job
from aimodels.delivery.names import DeliveryKey
from aimodels.jobs.manifest import MADE_WITH_ANNOTATION, JobSettings, fingerprint
from aimodels.publication.settings import Settings as PublicationSettings
from kubekit.placement import Placement, Toleration
from kubekit.resources import ObjectMeta, PersistentVolumeClaim
from opskit import settings
from tests.kit import helm, pod_security

if TYPE_CHECKING:
    from aimodels.jobs.worker import WorkerSettings

PLACEMENT = Placement({"pool": "models"}, (Toleration(key="dedicated", operator="Exists"),))
GIVEN = JobSettings("d8-ai-models", "ai-models:1", "https://dmcr.d8-ai-models.svc", placement=PLACEMENT)
UID = "5a6b4d84-0f86-4bb0-9d6b-2d0b1a111111"


def publication() -> dict[str, Any]:
    return publication_job(GIVEN, Key("Model", "team", "llm"), UID, 1, 2)


def copy() -> dict[str, Any]:
    contents = Contents(DeliveryKey("team", "Model", "llm"), 1, "sha256:x", "shared", "1Gi")
    metadata = claims.fill_claim(contents, GIVEN.namespace)["metadata"]
    fill = claims.read(PersistentVolumeClaim(metadata=ObjectMeta(**metadata, uid=UID)), GIVEN.namespace)
    assert fill is not None
    return copy_job(GIVEN, fill)


JOBS: dict[str, tuple[dict[str, Any], str, type[WorkerSettings]]] = {
    "publication": (publication(), "PUBLICATION_", PublicationSettings),
    "copy": (copy(), "COPY_", CopySettings),
}


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_restricted_placed_and_understood_by_its_program(name: str) -> None:
    manifest, prefix, kind = JOBS[name]
    for version in ("1.30", "1.36"):
        kubernetes_validate.validate(json.loads(json.dumps(manifest)), version, strict=True)
    template = manifest["spec"]["template"]
    assert pod_security.violations(template) == []
    pod = template["spec"]
    assert {field: pod[field] for field in ("nodeSelector", "tolerations")} == PLACEMENT.fields()
    assert manifest["metadata"]["annotations"][MADE_WITH_ANNOTATION] == fingerprint(GIVEN)
    (container,) = pod["containers"]
    loaded = settings.load(kind, helm.environment(container), prefix)
    assert loaded.repository == "models/team/llm"
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    for path in (loaded.ca_file, loaded.token_file):
        assert path is not None
        assert str(path.parent) in mounts
    assert {mount["name"] for mount in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}


def test_only_a_copy_mounts_a_claim_where_its_program_writes() -> None:
    pods = {name: manifest["spec"]["template"]["spec"] for name, (manifest, _, _) in JOBS.items()}
    assert [one for one in pods["publication"]["volumes"] if "persistentVolumeClaim" in one] == []
    (claim,) = [one for one in pods["copy"]["volumes"] if "persistentVolumeClaim" in one]
    (container,) = pods["copy"]["containers"]
    (path,) = [one["mountPath"] for one in container["volumeMounts"] if one["name"] == claim["name"]]
    assert helm.environment(container)["COPY_TARGET"] == path
    assert claim["persistentVolumeClaim"]["claimName"].startswith("ai-model-fill-")
