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

import msgspec

from aimodels.jobs.manifest import MADE_WITH_ANNOTATION, fingerprint
from aimodels.jobs.worker import Exit
from kubekit.errors import KubeError
from kubekit.events import newest
from kubekit.pods import why_not_running
from kubekit.resources import Event, Pod

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aimodels.jobs.manifest import JobSettings
    from kubekit.client import Client
    from kubekit.resources import ContainerStateTerminated, Job, Resource

#: every Pod waits a moment for something; longer than this is told
TOLD_AFTER = 5.0
#: a Pod that does not run for so long gives its Job's place to somebody who waits for one
MOST_HELD = 60.0

_JOB_NAME = "batch.kubernetes.io/job-name"
_SHOWN = 512
#: what the kubelet keeps of a termination message
_MESSAGE_LIMIT = 4096
_WORDS_SHOWN = 1024
_EPOCH = datetime.min.replace(tzinfo=UTC)


class JobPhase(Enum):
    """How far a Job is."""

    ABSENT = auto()
    ACTIVE = auto()
    SUCCEEDED = auto()
    FAILED = auto()


@dataclass(frozen=True)
class Held:
    """Why no Pod of a Job runs, and since when there is no running one.

    ``outdated`` tells whether the Job was made with other settings than a new one would be.
    """

    message: str
    since: datetime
    outdated: bool = False

    def lasts(self, now: datetime) -> bool:
        """Tell whether it has lasted long enough to be told."""
        return (now - self.since).total_seconds() >= TOLD_AFTER

    def lasts_too_long(self, now: datetime) -> bool:
        """Tell whether somebody else should have the place, or a Job with the present settings."""
        return (now - self.since).total_seconds() >= MOST_HELD


class Verdict(msgspec.Struct, frozen=True):
    """What a program left as it ended: its words, and a reason only where trying again cannot help."""

    reason: str = ""
    message: str = ""


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


async def why_held(client: Client, job: Job, settings: JobSettings) -> Held | None:
    """Return why no Pod of the Job runs, or None while nothing holds it up.

    It only explains: where the cluster does not answer, nothing is known.
    """
    try:
        pods = await pods_of(client, job)
        living = [pod for pod in pods if not (pod.finished or pod.metadata.deleting)]
        text, since = why_not_running(living), _made(living[-1]) if living else _between(job, pods)
        if not text:
            warning = await _last_warning(client, living[-1] if living else job)
            if warning is None:
                return None
            text, since = warning.message[:_SHOWN], since if living else max(since, _first(warning))
    except KubeError:
        return None
    made_with = job.metadata.annotations.get(MADE_WITH_ANNOTATION)
    return Held(text, since, outdated=made_with != fingerprint(settings)) if text else None


async def _last_warning(client: Client, about: Resource) -> Event | None:
    """Return the newest event of an object where that is a warning: whatever came after it went on."""
    selector = f"involvedObject.uid={about.metadata.uid}"
    last = newest(await client.list(Event, about.metadata.namespace, field_selector=selector))
    return last if last is not None and last.type == "Warning" else None


def _between(job: Job, pods: Iterable[Pod]) -> datetime:
    """Return since when a Job without a living Pod has none."""
    ends = (state.finished_at for state in _ends(pods))
    going = (pod.metadata.deletion_timestamp for pod in pods)
    made = (_made(pod) for pod in pods)
    return max((moment for moment in (*ends, *going, *made) if moment is not None), default=_made(job))


def _first(event: Event) -> datetime:
    """Return when a series of events began."""
    return event.first_timestamp or event.event_time or event.metadata.creation_timestamp or _EPOCH


def ended(pods: Iterable[Pod]) -> list[Verdict]:
    """Return what the Pods' containers left as they ended, in the order of the Pods."""
    return [verdict(state.exit_code, state.message) for state in _ends(pods)]


def verdict(code: int, message: str) -> Verdict:
    """Return what a termination message says; only the exit code makes a reason a permanent one."""
    try:
        said = msgspec.json.decode(message[:_MESSAGE_LIMIT].encode(), type=Verdict)
    except (msgspec.MsgspecError, UnicodeError):
        return Verdict()
    return Verdict(said.reason if code == Exit.PERMANENT else "", said.message[:_WORDS_SHOWN])


def _ends(pods: Iterable[Pod]) -> list[ContainerStateTerminated]:
    states = (status.state.terminated for pod in pods for status in pod.status.container_statuses)
    return [state for state in states if state is not None]


def _made(about: Resource) -> datetime:
    return about.metadata.creation_timestamp or _EPOCH
