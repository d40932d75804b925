"""Which turns of an order are events, and that nothing is told twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

from aiinference.api.orders import EndpointStatus, InferenceServiceStatus
from aiinference.api.reasons import OrderReason
from aiinference.orders.story import SILENT_SECONDS, Story, Turn, moves, turns
from kubekit.conditions import Condition
from opskit.clock import ManualClock
from tests.kit.ordersmodels import order
from tests.kit.orderstates import NOW

if TYPE_CHECKING:
    from kubekit.conditions import Status
    from kubekit.events import Recorder


def said(type_: str, reason: str, status: Status = "False", message: str = "Because.") -> Condition:
    return Condition(type=type_, status=status, reason=reason, message=message, last_transition_time=NOW)


READY = said("Ready", "Ready", "True", "The API answers.")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([], [said("ModelResolved", "ModelResolved", "True"), said("Ready", "Pending")], []),
        ([], [said("WorkloadReady", "Starting"), said("Ready", "HealthCheckFailed")], []),
        ([], [said("Planned", "NoCapacity"), said("Ready", "NoCapacity")], [("Warning", "NoCapacity")]),
        ([], [said("ModelResolved", "ModelNotReady")], [("Normal", "ModelNotReady")]),
        ([], [said("Planned", "LaunchPlanCalculated", "True")], [("Normal", "LaunchPlanCalculated")]),
        ([said("Ready", "Starting")], [READY], [("Normal", "Ready")]),
        ([READY], [READY], []),
        ([], [said("RuntimeCurrent", "Updating"), said("Ready", "Starting")], []),
        ([READY], [said("Ready", "ServiceUnhealthy")], [("Warning", "ServiceUnhealthy")]),
        ([said("Ready", "ObjectRefused")], [said("Ready", "ObjectRefused", message="Other numbers.")], []),
        (
            [said("RuntimeCurrent", "RuntimeCurrent", "True"), READY],
            [said("RuntimeCurrent", "Updating"), READY],
            [("Normal", "Updating")],
        ),
        (
            [said("WorkloadReady", "Unschedulable")],
            [said("WorkloadReady", "ImagePullFailed")],
            [("Warning", "ImagePullFailed")],
        ),
    ],
)
def test_a_turn_is_told_and_what_stays_is_not(
    old: list[Condition], new: list[Condition], expected: list[tuple[str, str]]
) -> None:
    assert [(turn.kind, turn.reason) for turn in turns(old, new)] == expected


@pytest.mark.parametrize("reason", list(OrderReason))
def test_whatever_is_refused_is_told_in_its_own_words_once(reason: OrderReason) -> None:
    new = [said("WorkloadReady", reason), said("Ready", reason)]
    assert len(turns([], new)) <= 1
    assert turns(new, new) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("a.example.com", "b.example.com", ["HostChanged"]),
        ("a.example.com", "a.example.com", []),
        (None, "a.example.com", []),
        ("a.example.com", None, []),
    ],
)
def test_clients_are_told_of_another_host(old: str | None, new: str | None, told: list[str]) -> None:
    found = moves(EndpointStatus(type="External", domain=old), EndpointStatus(type="External", domain=new))
    assert [turn.reason for turn in found] == told
    assert moves(None, EndpointStatus(type="External", domain=new)) == []
    assert all(str(old) in turn.message and str(new) in turn.message for turn in found)


class Recorded:
    def __init__(self) -> None:
        self.told: list[Turn] = []

    async def event(self, _about: Any, kind: Any, reason: str, message: str) -> None:
        self.told.append(Turn(kind, reason, message))


async def test_what_changes_to_and_fro_is_told_once_in_a_while() -> None:
    recorded, clock = Recorded(), ManualClock()
    story = Story(cast("Recorder", recorded), clock)
    plain = order("qwen")
    states = [
        InferenceServiceStatus(conditions=(said("WorkloadReady", reason),))
        for reason in ("Starting", "RuntimeCrashed")
    ]
    for number in range(40):
        before, after = states[number % 2], states[(number + 1) % 2]
        await story.tell(msgspec.structs.replace(plain, status=before), after)
    assert [turn.reason for turn in recorded.told] == ["RuntimeCrashed"]
    await clock.advance(SILENT_SECONDS)
    await story.tell(msgspec.structs.replace(plain, status=states[0]), states[1])
    assert len(recorded.told) == 2
    story.forget(plain.metadata.key)
    await story.tell(msgspec.structs.replace(plain, status=states[0]), states[1])
    assert len(recorded.told) == 3
