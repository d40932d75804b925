"""Workloads: the controllers of Pods that users write, and Jobs.

A Pod template is kept as the dict it is: it belongs to its author, and what is not understood must survive.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from kubekit.resources.meta import Resource, resource


class WorkloadSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What Deployments, StatefulSets and DaemonSets have in common."""

    replicas: int | None = None
    template: dict[str, Any] = {}


class WorkloadStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """How far a workload's controller is."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0


class Workload(Resource, frozen=True, kw_only=True):
    """Base of the kinds whose ``spec.template`` is a Pod template."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    @property
    def pod_template(self) -> Mapping[str, Any]:
        """Return the Pod template."""
        return self.spec.template


@resource("apps/v1", "Deployment", "deployments")
class Deployment(Workload, frozen=True, kw_only=True):
    """A Deployment."""


class UpdateStrategy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who replaces the Pods of an earlier template."""

    type: str = "RollingUpdate"


class StatefulSetSpec(WorkloadSpec, frozen=True, kw_only=True, rename="camel"):
    """What a StatefulSet has beside that."""

    update_strategy: UpdateStrategy = UpdateStrategy()


class StatefulSetStatus(WorkloadStatus, frozen=True, kw_only=True, rename="camel", gc=False):
    """How far its controller is, and from which templates its Pods are."""

    current_revision: str = ""
    update_revision: str = ""


@resource("apps/v1", "StatefulSet", "statefulsets")
class StatefulSet(Workload, frozen=True, kw_only=True):
    """A StatefulSet."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()

    @property
    def rolling(self) -> bool:
        """Tell whether its controller replaces Pods of an earlier template, until all new ones are ready."""
        # A StatefulSet that leaves that to people never says that it is over.
        by_itself = self.spec.update_strategy.type == "RollingUpdate"
        return by_itself and self.status.current_revision != self.status.update_revision


@resource("apps/v1", "DaemonSet", "daemonsets")
class DaemonSet(Workload, frozen=True, kw_only=True):
    """A DaemonSet."""


class JobTemplate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The Job that a CronJob makes."""

    spec: WorkloadSpec = WorkloadSpec()


class CronJobSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is read of a CronJob."""

    suspend: bool = False
    job_template: JobTemplate = JobTemplate()


@resource("batch/v1", "CronJob", "cronjobs")
class CronJob(Resource, frozen=True, kw_only=True):
    """A CronJob; its Pod template lies inside the Job template."""

    spec: CronJobSpec = CronJobSpec()

    @property
    def pod_template(self) -> Mapping[str, Any]:
        """Return the Pod template."""
        return self.spec.job_template.spec.template


class JobCondition(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One condition of a Job: Complete, Failed, Suspended."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class JobStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a Job is."""

    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    start_time: datetime | None = None
    completion_time: datetime | None = None
    conditions: list[JobCondition] = []


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is read of a Job's spec."""

    suspend: bool = False
    backoff_limit: int | None = None
    template: dict[str, Any] = {}


@resource("batch/v1", "Job", "jobs")
class Job(Resource, frozen=True, kw_only=True):
    """A Job."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def succeeded(self) -> bool:
        """Tell whether the Job ended well."""
        return self._has("Complete")

    @property
    def failed(self) -> bool:
        """Tell whether the Job gave up."""
        return self._has("Failed")

    @property
    def failed_at(self) -> datetime | None:
        """Return when the Job gave up."""
        found = self._condition("Failed")
        return found.last_transition_time if found else None

    def _has(self, condition: str) -> bool:
        return self._condition(condition) is not None

    def _condition(self, condition: str) -> JobCondition | None:
        holding = (one for one in self.status.conditions if one.type == condition and one.status == "True")
        return next(holding, None)
