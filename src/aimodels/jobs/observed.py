"""How a Job stands, and what its Pod waits for, in the words of the cluster.

What belongs here: reading a Job, its Pods and their events. What does not: what follows from it.

A Job says itself only how it ended. That its Pods cannot be made (a quota, a limit, a policy) stands in its
events alone, that one has no node or no image stands in the Pod's status, that a volume cannot be mounted in
the Pod's events.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from typing import TYPE_CHECKING

from kubekit.errors import KubeError
from kubekit.events import newest
from kubekit.pods import why_not_running
from kubekit.resources import Event, Pod

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.client import Client
    from kubekit.resources import Job, Resource

#: every Pod waits a moment for something; longer than this is told
TOLD_AFTER = 5.0
#: a Pod that does not run for so long gives its Job's place to somebody who waits for one
MOST_HELD = 60.0

_JOB_NAME = "batch.kubernetes.io/job-name"
_SHOWN = 512
_EPOCH = datetime.min.replace(tzinfo=UTC)


class JobPhase(Enum):
    """How far a Job is."""

    ABSENT = auto()
    ACTIVE = auto()
    SUCCEEDED = auto()
    FAILED = auto()


@dataclass(frozen=True)
class Held:
    """Why no Pod of a Job runs, and since when there is no running one."""

    message: str
    since: datetime

    def lasts(self, now: datetime) -> bool:
        """Tell whether it has lasted long enough to be told."""
        return (now - self.since).total_seconds() >= TOLD_AFTER

    def lasts_too_long(self, now: datetime) -> bool:
        """Tell whether somebody else should have the place."""
        return (now - self.since).total_seconds() >= MOST_HELD


def phase_of(job: Job | None) -> JobPhase:
    """Return how far the Job is; one that gave up and is being deleted still takes up its name."""
    if job is None:
        return JobPhase.ABSENT
    if job.succeeded:
        return JobPhase.SUCCEEDED
    if job.failed and not job.metadata.deleting:
        return JobPhase.FAILED
    return JobPhase.ACTIVE


async def pods_of(client: Client, job: Job) -> list[Pod]:
    """Return the Job's Pods, the newest last."""
    found = await client.list(Pod, job.metadata.namespace, label_selector=f"{_JOB_NAME}={job.metadata.name}")
    return sorted(found, key=_made)


async def why_held(client: Client, job: Job) -> Held | None:
    """Return why no Pod of the Job runs, or None while nothing holds it up.

    It only explains: where the cluster does not answer, nothing is known.
    """
    try:
        pods = [pod for pod in await pods_of(client, job) if not (pod.finished or pod.metadata.deleting)]
        about = pods[-1] if pods else job
        text = why_not_running(pods) or await _last_warning(client, about)
    except KubeError:
        return None
    return Held(text, _made(about)) if text else None


async def _last_warning(client: Client, about: Resource) -> str:
    """Return the newest event of an object where that is a warning: whatever came after it went on."""
    selector = f"involvedObject.uid={about.metadata.uid}"
    last = newest(await client.list(Event, about.metadata.namespace, field_selector=selector))
    return last.message[:_SHOWN] if last is not None and last.type == "Warning" else ""


def ended(pods: Iterable[Pod]) -> list[tuple[int, str]]:
    """Return the exit codes and termination messages of the Pods' containers, in the order of the Pods."""
    states = (status.state.terminated for pod in pods for status in pod.status.container_statuses)
    return [(state.exit_code, state.message) for state in states if state is not None]


def _made(about: Resource) -> datetime:
    return about.metadata.creation_timestamp or _EPOCH
