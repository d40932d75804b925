"""Who holds a place among the copies."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from aimodels.api.model import ClusterModel, Model
from aimodels.delivery import claims
from aimodels.delivery.claims import Contents
from aimodels.delivery.knowledge import Knowledge, claim_indexes
from aimodels.delivery.names import DeliveryKey, copy_name
from aimodels.delivery.observe import Observer
from aimodels.delivery.views import MountingPod
from kubekit.resources import Job, ObjectMeta, PersistentVolumeClaim, StorageClass
from kubekit.resources.workloads import JobCondition, JobStatus
from kubekit.store import Store

if TYPE_CHECKING:
    from kubekit.client import Client

OURS = "d8-ai-models"


def fill(name: str) -> PersistentVolumeClaim:
    contents = Contents(DeliveryKey("ai-demo", "Model", name), 1, "sha256:x", "shared", "1Gi")
    metadata = claims.fill_claim(contents, OURS)["metadata"]
    return PersistentVolumeClaim(metadata=ObjectMeta(**metadata, uid=name, resource_version="1"))


def job(name: str, *conditions: str) -> Job:
    ended = [
        JobCondition(type=one, status="True", last_transition_time=datetime.now(UTC)) for one in conditions
    ]
    metadata = ObjectMeta(name=copy_name(name), namespace=OURS, resource_version="1")
    return Job(metadata=metadata, status=JobStatus(conditions=ended))


def test_a_copy_that_gave_up_or_is_done_keeps_nobody_waiting() -> None:
    volumes = Store[PersistentVolumeClaim]("PersistentVolumeClaim", claim_indexes(OURS))
    volumes.replace([fill("new"), fill("running"), fill("failed"), fill("done")])
    jobs = Store[Job]("Job")
    jobs.replace([job("running"), job("failed", "Failed"), job("done", "Complete")])
    unused: dict[str, Store[Any]] = {}
    observer = Observer(
        cast("Client", None),
        Knowledge(Store[Model]("Model"), Store[ClusterModel]("ClusterModel"), volumes, OURS),
        workloads=unused,
        pods=Store[MountingPod]("Pod"),
        jobs=jobs,
        classes=Store[StorageClass]("StorageClass"),
        configured_class="",
        namespace=OURS,
    )
    assert {key.name for key in observer.copying()} == {"new", "running"}
