from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from aiinference.api.orders import StartupSeconds
from aiinference.api.reasons import StartupPhase
from aiinference.probes.startup import progress
from kubekit.resources import Pod

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
STARTUP = 600
P = StartupPhase


def _at(seconds: int) -> str:
    return (BEGAN + timedelta(seconds=seconds)).isoformat()


def _pod(
    scheduled: int | None = None,
    mounted: int | None = None,
    running: int | None = None,
    loaded: int | None = None,
    name: str = "llm-0",
) -> Pod:
    """Return a Pod whose parts of the start were over after so many seconds."""
    conditions = [
        {
            "type": kind,
            "status": "True" if when is not None else "False",
            "lastTransitionTime": _at(when or 0),
        }
        for kind, when in (
            ("PodScheduled", scheduled),
            ("PodReadyToStartContainers", mounted),
            ("ContainersReady", loaded),
        )
    ]
    state = {"running": {"startedAt": _at(running)}} if running is not None else {"waiting": {"reason": "x"}}
    runtime: dict[str, Any] = {"name": "runtime", "state": state, "started": loaded is not None}
    gate = {"name": "gate", "state": {"running": {"startedAt": _at(1)}}, "started": True}
    return msgspec.convert(
        {
            "metadata": {"name": name, "creationTimestamp": _at(0)},
            "status": {
                "conditions": conditions,
                "containerStatuses": [runtime],
                "initContainerStatuses": [gate],
            },
        },
        Pod,
    )


@pytest.mark.parametrize(
    ("pod", "phase", "since", "deadline"),
    [
        (_pod(), P.SCHEDULING, 0, None),
        (_pod(3), P.MOUNTING, 3, None),
        (_pod(3, 10), P.PULLING, 10, None),
        (_pod(3, 10, 40), P.LOADING, 40, 640),
        (_pod(3, 10, 40, 100), P.ANSWERING, 100, 640),
    ],
)
def test_where_a_start_is(pod: Pod, phase: P, since: int, deadline: int | None) -> None:
    found = progress([pod], None, STARTUP)
    assert found.phase == phase
    assert found.since == BEGAN + timedelta(seconds=since)
    assert found.deadline == (deadline and BEGAN + timedelta(seconds=deadline))
    assert found.message
    assert "llm-0" in found.message


def test_how_long_each_part_took() -> None:
    ready = BEGAN + timedelta(seconds=103)
    found = progress([_pod(3, 10, 40, 100)], ready, STARTUP)
    assert (found.phase, found.since, found.deadline) == (P.DONE, ready, None)
    assert found.seconds == StartupSeconds(scheduling=3, mounting=7, pulling=30, loading=60, answering=3)


def test_a_part_that_is_not_over_has_no_length() -> None:
    assert progress([_pod(3, 10)], None, STARTUP).seconds == StartupSeconds(scheduling=3, mounting=7)


def test_a_delay_shows_in_its_own_part_only() -> None:
    for part, pod in {
        "scheduling": _pod(503, 510, 540, 600),
        "mounting": _pod(3, 510, 540, 600),
        "pulling": _pod(3, 10, 540, 600),
        "loading": _pod(3, 10, 40, 600),
    }.items():
        seconds = msgspec.structs.asdict(
            progress([pod], BEGAN + timedelta(seconds=601), STARTUP).seconds or StartupSeconds()
        )
        assert [name for name, length in seconds.items() if length >= 500] == [part]


def test_the_replica_that_is_furthest_behind_is_told_of() -> None:
    found = progress([_pod(3, 10, 40, 100), _pod(3, name="llm-1")], None, STARTUP)
    assert found.phase == P.MOUNTING
    assert "llm-1" in (found.message or "")


def test_a_kubelet_that_tells_less_leaves_nothing_out_of_order() -> None:
    found = progress([_pod(3, None, 40)], None, STARTUP)
    assert (found.phase, found.since) == (P.LOADING, BEGAN + timedelta(seconds=40))


def test_without_pods_nothing_is_made_up() -> None:
    found = progress([], None, STARTUP)
    assert (found.phase, found.since, found.seconds) == (P.SCHEDULING, None, None)


def test_a_pod_that_has_done_nothing_yet_took_no_time() -> None:
    assert progress([_pod()], None, STARTUP).seconds is None
