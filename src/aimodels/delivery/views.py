"""What delivery follows in the cluster, as small as it can be.

What belongs here: Structs that drop what delivery does not look at, and the keys they are found by. What
does not: decisions. There may be thousands of workloads and Pods, and few of them have to do with models.
"""

from typing import TYPE_CHECKING

import msgspec

from aimodels.delivery import references
from aimodels.delivery.names import DeliveryKey, Reference, WorkloadKey, may_be_claim, model_place
from aimodels.delivery.template import read_marker
from kubekit.resources import CronJob, CronJobSpec, Resource, Volume, Workload, WorkloadSpec, resource

if TYPE_CHECKING:
    from collections.abc import Iterable


class _Following:
    """Drops the template of a workload that has nothing to do with models."""

    def __post_init__(self) -> None:
        assert isinstance(self, Workload | CronJob)  # noqa: S101 told to the type checker
        concerned = references.named(self.metadata.annotations) or read_marker(self.pod_template) is not None
        if not concerned:
            empty = CronJobSpec() if isinstance(self, CronJob) else WorkloadSpec()
            msgspec.structs.force_setattr(self, "spec", empty)


@resource("apps/v1", "Deployment", "deployments")
class FollowedDeployment(_Following, Workload, frozen=True, kw_only=True):
    """A Deployment."""


@resource("apps/v1", "StatefulSet", "statefulsets")
class FollowedStatefulSet(_Following, Workload, frozen=True, kw_only=True):
    """A StatefulSet."""


@resource("apps/v1", "DaemonSet", "daemonsets")
class FollowedDaemonSet(_Following, Workload, frozen=True, kw_only=True):
    """A DaemonSet."""


@resource("batch/v1", "CronJob", "cronjobs")
class FollowedCronJob(_Following, CronJob, frozen=True, kw_only=True):
    """A CronJob."""


AnyWorkload = FollowedDeployment | FollowedStatefulSet | FollowedDaemonSet | FollowedCronJob
WORKLOADS: tuple[type[AnyWorkload], ...] = (
    FollowedDeployment,
    FollowedStatefulSet,
    FollowedDaemonSet,
    FollowedCronJob,
)


class PodVolumes(msgspec.Struct, frozen=True, kw_only=True):
    """The volumes of a Pod."""

    volumes: list[Volume] = []


class PodPhase(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The phase of a Pod."""

    phase: str = ""


@resource("v1", "Pod", "pods")
class MountingPod(Resource, frozen=True, kw_only=True):
    """A Pod as far as it mounts claims."""

    spec: PodVolumes = PodVolumes()
    status: PodPhase = PodPhase()

    def __post_init__(self) -> None:
        """Keep the volumes that may be our claims, and of other Pods nothing but the identity."""
        ours = [
            volume
            for volume in self.spec.volumes
            if volume.persistent_volume_claim and may_be_claim(volume.persistent_volume_claim.claim_name)
        ]
        small = msgspec.structs.replace(
            self.metadata, labels={}, annotations={}, finalizers=[], owner_references=[]
        )
        msgspec.structs.force_setattr(self, "metadata", small)
        msgspec.structs.force_setattr(self, "spec", PodVolumes(volumes=ours))

    @property
    def claims(self) -> list[str]:
        """Return the names of the claims that it mounts; none once it has ended."""
        if self.status.phase in {"Succeeded", "Failed"}:
            return []
        sources = (volume.persistent_volume_claim for volume in self.spec.volumes)
        return [source.claim_name for source in sources if source]


def workload_key(workload: AnyWorkload) -> WorkloadKey:
    """Return the key of a workload."""
    return WorkloadKey(workload.KIND.name, *workload.metadata.key)


def named_by(workload: AnyWorkload) -> tuple[Reference, ...]:
    """Return the models that a workload names; one that is being deleted names none."""
    if workload.metadata.deleting:
        return ()
    return references.readable(workload.metadata.annotations)


def deliveries_of(workload: AnyWorkload) -> "Iterable[DeliveryKey]":
    """Return the deliveries that a workload wants."""
    return [DeliveryKey(workload.metadata.namespace, *reference) for reference in named_by(workload)]


def model_index(workload: AnyWorkload) -> "Iterable[str]":
    """Return how a workload is found by its models, as ``model_place`` writes them."""
    return [model_place(*key.model) for key in deliveries_of(workload)]


def claim_index(pod: MountingPod) -> "Iterable[str]":
    """Return how a Pod is found by the claims that it mounts: ``<namespace>/<claim>``."""
    return [f"{pod.metadata.namespace}/{claim}" for claim in pod.claims]
