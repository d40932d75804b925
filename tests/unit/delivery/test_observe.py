"""What is seen of copies: who holds a place, and why one gave up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import pytest

from aimodels.api.model import ClusterModel, Model
from aimodels.delivery import claims
from aimodels.delivery.claims import Contents
from aimodels.delivery.knowledge import Knowledge, claim_indexes
from aimodels.delivery.names import DeliveryKey, copy_name
from aimodels.delivery.observe import CLAIM_INDEX, Observer
from aimodels.delivery.slots import Slots
from aimodels.delivery.views import MountingPod, claim_index
from aimodels.jobs.manifest import JobSettings
from kubekit.resources import Job, ObjectMeta, PersistentVolumeClaim, Pod, StorageClass
from kubekit.resources.core import ContainerState, ContainerStateTerminated, ContainerStatus, PodStatus
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


def pod(number: int, message: str, code: int) -> Pod:
    """Return a copy's Pod, the higher its number the newer; names of Pods say nothing about their age."""
    ended = ContainerStateTerminated(exit_code=code, message=message)
    return Pod(
        metadata=ObjectMeta(
            name=f"copy-{9 - number}",
            namespace=OURS,
            creation_timestamp=datetime(2026, 5, 1, 0, number, tzinfo=UTC),
        ),
        status=PodStatus(container_statuses=[ContainerStatus(state=ContainerState(terminated=ended))]),
    )


class Cluster:
    """A cluster that has just these Pods."""

    def __init__(self, *pods: Pod) -> None:
        self.pods = [*pods]

    async def list(self, *_about: object, **_named: object) -> list[Pod]:
        return sorted(self.pods, key=lambda pod: pod.metadata.name)


def observer(cluster: Cluster, fills: list[PersistentVolumeClaim], *seen: Job) -> Observer:
    volumes = Store[PersistentVolumeClaim]("PersistentVolumeClaim", claim_indexes(OURS))
    volumes.replace(fills)
    jobs = Store[Job]("Job")
    jobs.replace(seen)
    workloads: dict[str, Store[Any]] = {}
    slots = Slots(2)
    return Observer(
        cast("Client", cluster),
        Knowledge(Store[Model]("Model"), Store[ClusterModel]("ClusterModel"), volumes, OURS),
        slots,
        workloads=workloads,
        pods=Store[MountingPod]("Pod", {CLAIM_INDEX: claim_index}),
        jobs=jobs,
        classes=Store[StorageClass]("StorageClass"),
        configured_class="",
        copies=JobSettings(OURS, "ai-models:1", "https://dmcr"),
    )


def test_a_copy_without_a_job_that_gave_up_or_is_done_keeps_nobody_waiting() -> None:
    fills = [fill(name) for name in ("parked", "running", "failed", "done")]
    seen = observer(Cluster(), fills, job("running"), job("failed", "Failed"), job("done", "Complete"))
    assert {key.name for key in seen.copying()} == {"running"}


@pytest.mark.parametrize(
    ("messages", "reason", "words"),
    [
        ([], "SharedPVCMaterializerPending", "gave up; it is started again."),
        (['{"reason":"","message":"no answer"}'], "SharedPVCMaterializerPending", "words: no answer"),
        (['{"reason":"InsufficientStorage","message":"full"}'], "SharedPVCClaimPending", "Storage: full"),
        (['{"reason":"ManifestInvalid","message":"odd"}'], "SharedPVCMaterializerPending", "Invalid: odd"),
        (
            [
                '{"reason":"","message":"no answer"}',
                '{"reason":"InsufficientStorage","message":"full"}',
                "no JSON",
            ],
            "SharedPVCClaimPending",
            "InsufficientStorage: full",
        ),
    ],
)
async def test_why_a_copy_gave_up(messages: list[str], reason: str, words: str) -> None:
    """A registry that does not answer is no fault of a claim; of several Pods the newest one is believed."""
    cluster = Cluster(*(pod(number, message, 3) for number, message in enumerate(messages)))
    failed = observer(cluster, [fill("failed")], job("failed", "Failed"))
    (seen,) = (await failed.observe(DeliveryKey("ai-demo", "Model", "failed"))).fills
    assert seen.failure is not None
    assert seen.failure.reason == reason
    assert seen.failure.message.endswith(words)


async def test_a_reason_beside_another_exit_code_blames_nobody() -> None:
    cluster = Cluster(pod(0, '{"reason":"InsufficientStorage","message":"full"}', 1))
    failed = observer(cluster, [fill("failed")], job("failed", "Failed"))
    (seen,) = (await failed.observe(DeliveryKey("ai-demo", "Model", "failed"))).fills
    assert seen.failure is not None
    assert seen.failure.reason == "SharedPVCMaterializerPending"
    assert seen.failure.message.endswith("Its last words: full")
