"""What a Job waits for: its Pods' states, and events where there are none."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from aimodels.jobs.manifest import MADE_WITH_ANNOTATION, JobSettings, fingerprint
from aimodels.jobs.observed import Held, JobPhase, Verdict, ended, phase_of, verdict, why_held
from kubekit.errors import ServerError
from kubekit.placement import Placement, Toleration
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


GIVEN = JobSettings("ns", "ai-models:1", "https://dmcr", placement=Placement({"pool": "models"}))
JOB = Job(metadata=made("job", 0, annotations={MADE_WITH_ANNOTATION: fingerprint(GIVEN)}))


def pod(uid: str, minutes: float, phase: str = "Pending", waiting: str = "", **more: Any) -> Pod:
    state = ContainerState(waiting=ContainerStateWaiting(reason=waiting, message="no host"))
    containers = [ContainerStatus(state=state)] if waiting else []
    return Pod(
        metadata=made(uid, minutes, **more), status=PodStatus(phase=phase, container_statuses=containers)
    )


def event(uid: str, minutes: float, kind: str, message: str) -> tuple[str, Event]:
    """Return the last one of a series that began a minute before."""
    return uid, Event(type=kind, message=message, first_timestamp=at(minutes - 1), last_timestamp=at(minutes))


def dead(uid: str, minutes: float, end: float | None, **more: Any) -> Pod:
    """Return a Pod that ran and ended; an evicted one may leave no word of its container."""
    state = ContainerState(terminated=ContainerStateTerminated(exit_code=1, finished_at=at(end or 0)))
    containers = [] if end is None else [ContainerStatus(state=state)]
    return Pod(
        metadata=made(uid, minutes, **more), status=PodStatus(phase="Failed", container_statuses=containers)
    )


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
        ([], [REFUSED], Held("Error creating: pods is forbidden: exceeded quota", at(2))),
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
        ([pod("dead", 1, "Failed", waiting="ErrImagePull")], [REFUSED], Held(REFUSED[1].message, at(2))),
        ([dead("a", 0, 1), dead("b", 2, 90)], [REFUSED], Held(REFUSED[1].message, at(90))),
        ([dead("a", 0, 1), dead("evicted", 50, None)], [REFUSED], Held(REFUSED[1].message, at(50))),
        (
            [dead("going", 0, None, deletion_timestamp=at(70))],
            [REFUSED],
            Held(REFUSED[1].message, at(70)),
        ),
        ([dead("a", 0, 90)], [event("job", 95, "Warning", "quota")], Held("quota", at(94))),
        ([dead("a", 0, 90), pod("b", 91, waiting="ErrImagePull")], [], Held("ErrImagePull: no host", at(91))),
        ([pod("going", 1, waiting="ErrImagePull", deletion_timestamp=BEGIN)], [], None),
    ],
)
async def test_what_a_job_waits_for(
    pods: list[Pod], events: list[tuple[str, Event]], expected: Held | None
) -> None:
    assert await why_held(cast("Any", Cluster(pods, events)), JOB, GIVEN) == expected


@pytest.mark.parametrize(
    ("now", "outdated"),
    [
        (GIVEN, False),
        (replace(GIVEN, dmcr_url="https://other", log_level="debug"), False),
        (replace(GIVEN, image="ai-models:2"), True),
        (replace(GIVEN, placement=Placement()), True),
        (replace(GIVEN, placement=Placement({"pool": "model"})), True),
        (replace(GIVEN, placement=replace(GIVEN.placement, tolerations=(Toleration(key="gpu"),))), True),
    ],
)
async def test_a_job_that_cannot_run_is_outdated_by_another_image_or_placement(
    now: JobSettings, *, outdated: bool
) -> None:
    cluster = cast("Any", Cluster([pod("pod", 2, waiting="ErrImagePull")], []))
    found = await why_held(cluster, JOB, now)
    assert found is not None
    assert found.outdated is outdated
    unknown = await why_held(cluster, Job(metadata=made("job", 0)), GIVEN)
    assert unknown is not None
    assert unknown.outdated, "a version before made it"


async def test_a_cluster_that_does_not_answer_holds_nothing_up() -> None:
    class Dead:
        async def list(self, *_: object, **__: object) -> None:
            raise ServerError(500, "", "no")

    assert await why_held(cast("Any", Dead()), JOB, GIVEN) is None


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
    def left(code: int) -> Pod:
        state = ContainerState(
            terminated=ContainerStateTerminated(
                exit_code=code, message=f'{{"reason":"R","message":"m{code}"}}'
            )
        )
        return Pod(status=PodStatus(container_statuses=[ContainerStatus(state=state)]))

    assert ended([left(1), Pod(), left(3)]) == [Verdict("", "m1"), Verdict("R", "m3")]


@pytest.mark.parametrize("code", [0, 1, 2, 137])
def test_a_reason_is_permanent_beside_its_exit_code_alone(code: int) -> None:
    text = '{"reason": "InsufficientStorage", "message": "no room"}'
    assert verdict(code, text) == Verdict("", "no room")
    assert verdict(3, text) == Verdict("InsufficientStorage", "no room")


@pytest.mark.parametrize(
    "text", ["", "killed", "[]", '{"reason": 5}', "\ud800", '{"message": "x"' + " " * 9999]
)
def test_what_is_no_message_of_ours_says_nothing(text: str) -> None:
    assert verdict(3, text) == Verdict()


def test_a_long_text_is_cut() -> None:
    assert len(verdict(1, json.dumps({"reason": "", "message": "x" * 4000})).message) == 1024
