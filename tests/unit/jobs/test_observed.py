"""What a Job waits for: its Pods' states, and events where there are none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from aimodels.jobs.observed import Held, JobPhase, ended, phase_of, why_held
from kubekit.errors import ServerError
from kubekit.resources import (
    ContainerState,
    ContainerStateWaiting,
    ContainerStatus,
    Event,
    Job,
    ObjectMeta,
    Pod,
    PodStatus,
)
from kubekit.resources.core import ContainerStateTerminated
from kubekit.resources.workloads import JobCondition, JobStatus

BEGIN = datetime(2026, 5, 1, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return BEGIN + timedelta(minutes=minutes)


def made(uid: str, minutes: float, **more: Any) -> ObjectMeta:
    return ObjectMeta(name=uid, uid=uid, namespace="ns", creation_timestamp=at(minutes), **more)


JOB = Job(metadata=made("job", 0))


def pod(uid: str, minutes: float, phase: str = "Pending", waiting: str = "", **more: Any) -> Pod:
    state = ContainerState(waiting=ContainerStateWaiting(reason=waiting, message="no host"))
    containers = [ContainerStatus(state=state)] if waiting else []
    return Pod(
        metadata=made(uid, minutes, **more), status=PodStatus(phase=phase, container_statuses=containers)
    )


def event(uid: str, minutes: float, kind: str, message: str) -> tuple[str, Event]:
    return uid, Event(type=kind, message=message, last_timestamp=at(minutes))


class Cluster:
    """A cluster with these Pods, and events by the uid of what they are about."""

    def __init__(self, pods: list[Pod], events: list[tuple[str, Event]]) -> None:
        self._pods, self._events = pods, events

    async def list(self, struct: Any, namespace: str, **selectors: str) -> Any:
        assert namespace == "ns"
        if struct is Pod:
            assert selectors == {"label_selector": "batch.kubernetes.io/job-name=job"}
            return self._pods
        asked = selectors["field_selector"].removeprefix("involvedObject.uid=")
        return [one for uid, one in self._events if uid == asked]


REFUSED = event("job", 3, "Warning", "Error creating: pods is forbidden: exceeded quota")
UNMOUNTED = event("pod", 3, "Warning", "MountVolume.SetUp failed for volume trust")


@pytest.mark.parametrize(
    ("pods", "events", "expected"),
    [
        ([], [], None),
        ([], [REFUSED], Held("Error creating: pods is forbidden: exceeded quota", at(0))),
        ([], [REFUSED, event("job", 4, "Normal", "Created pod")], None),
        ([], [event("other", 4, "Warning", "trouble of others")], None),
        ([pod("pod", 2, waiting="ErrImagePull")], [REFUSED], Held("ErrImagePull: no host", at(2))),
        ([pod("pod", 2, waiting="ContainerCreating")], [REFUSED], None),
        (
            [pod("pod", 2, waiting="ContainerCreating")],
            [event("pod", 2, "Normal", "Scheduled"), UNMOUNTED],
            Held("MountVolume.SetUp failed for volume trust", at(2)),
        ),
        ([pod("pod", 2)], [UNMOUNTED, event("pod", 4, "Normal", "Pulling image")], None),
        ([pod("dead", 1, "Failed", waiting="ErrImagePull")], [REFUSED], Held(REFUSED[1].message, at(0))),
        ([pod("going", 1, waiting="ErrImagePull", deletion_timestamp=BEGIN)], [], None),
    ],
)
async def test_what_a_job_waits_for(
    pods: list[Pod], events: list[tuple[str, Event]], expected: Held | None
) -> None:
    assert await why_held(cast("Any", Cluster(pods, events)), JOB) == expected


async def test_a_cluster_that_does_not_answer_holds_nothing_up() -> None:
    class Dead:
        async def list(self, *_: object, **__: object) -> None:
            raise ServerError(500, "", "no")

    assert await why_held(cast("Any", Dead()), JOB) is None


@pytest.mark.parametrize(
    ("conditions", "deleting", "expected"),
    [
        ((), False, JobPhase.ACTIVE),
        (("Complete",), False, JobPhase.SUCCEEDED),
        (("Failed",), False, JobPhase.FAILED),
        (("Failed",), True, JobPhase.ACTIVE),
        (("FailureTarget",), False, JobPhase.ACTIVE),
    ],
)
def test_how_far_a_job_is(conditions: tuple[str, ...], *, deleting: bool, expected: JobPhase) -> None:
    states = [JobCondition(type=one, status="True") for one in conditions]
    going = {"deletion_timestamp": BEGIN} if deleting else {}
    assert phase_of(Job(metadata=made("job", 0, **going), status=JobStatus(conditions=states))) is expected
    assert phase_of(None) is JobPhase.ABSENT


def test_the_ends_of_containers_are_in_the_order_of_their_pods() -> None:
    def dead(code: int) -> Pod:
        state = ContainerState(terminated=ContainerStateTerminated(exit_code=code, message=f"m{code}"))
        return Pod(status=PodStatus(container_statuses=[ContainerStatus(state=state)]))

    assert ended([dead(1), Pod(), dead(3)]) == [(1, "m1"), (3, "m3")]
