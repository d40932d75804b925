"""How far the start of an order's Pods is, and how long each part of it took. Pure.

What belongs here: reading Pods. What does not: why one does not get on (``failures``).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from aiinference.api.orders import StartupSeconds, StartupStatus
from aiinference.api.reasons import StartupPhase
from aiinference.workload.names import RUNTIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.resources import Pod

_ORDER = tuple(StartupPhase)


class _Stages(NamedTuple):
    """When each part of a Pod's start was over, as far as it is."""

    created: datetime | None
    scheduled: datetime | None
    mounted: datetime | None
    running: datetime | None
    loaded: datetime | None


def progress(pods: Sequence[Pod], ready_time: datetime | None, startup_seconds: int) -> StartupStatus:
    """Return the start of the Pod that is furthest behind; ``ready_time`` is when the API answered first."""
    found = [(_stages(pod), pod) for pod in pods]
    if not found:
        return StartupStatus(phase=StartupPhase.SCHEDULING, message="No Pod is there yet.")
    stages, pod = min(found, key=lambda one: _ORDER.index(_phase(one[0], ready_time)))
    phase = _phase(stages, ready_time)
    begun = dict(zip(_ORDER, stages, strict=False))
    deadline = stages.running + timedelta(seconds=startup_seconds) if stages.running else None
    return StartupStatus(
        phase=phase,
        since=ready_time if phase == StartupPhase.DONE else begun.get(phase),
        deadline=deadline if phase in {StartupPhase.LOADING, StartupPhase.ANSWERING} else None,
        ready_time=ready_time,
        message=f"Pod {pod.metadata.name}: {_WORDS[phase]}.",
        seconds=_seconds(stages, ready_time),
    )


_WORDS = {
    StartupPhase.SCHEDULING: "waits for a node and for its model",
    StartupPhase.MOUNTING: "its volumes are mounted",
    StartupPhase.PULLING: "its images are fetched and its containers started",
    StartupPhase.LOADING: "the runtime loads the model",
    StartupPhase.ANSWERING: "the runtime is up, and its first answer is waited for",
    StartupPhase.DONE: "answers",
}


def _phase(stages: _Stages, ready_time: datetime | None) -> StartupPhase:
    for over, phase in (
        (stages.scheduled, StartupPhase.SCHEDULING),
        (stages.mounted, StartupPhase.MOUNTING),
        (stages.running, StartupPhase.PULLING),
        (stages.loaded, StartupPhase.LOADING),
    ):
        if over is None:
            return phase
    return StartupPhase.DONE if ready_time else StartupPhase.ANSWERING


def _stages(pod: Pod) -> _Stages:
    met = {one.type: one.last_transition_time for one in pod.status.conditions if one.status == "True"}
    runtime = next((one for one in pod.status.container_statuses if one.name == RUNTIME), None)
    running = runtime.state.running.started_at if runtime and runtime.state.running else None
    loaded = (met.get("ContainersReady") or running) if runtime and running and runtime.started else None
    # Where kubelets do not tell when a Pod's volumes were there, what runs shows that they are.
    mounted = met.get("PodReadyToStartContainers") or running
    return _Stages(pod.metadata.creation_timestamp, met.get("PodScheduled"), mounted, running, loaded)


def _seconds(stages: _Stages, ready_time: datetime | None) -> StartupSeconds | None:
    times = (*stages, ready_time)
    spans = [
        max(0, round((end - begin).total_seconds())) if begin and end else None
        for begin, end in pairwise(times)
    ]
    if spans == [None] * len(spans):
        return None  # nothing in place of what an earlier Pod took would be refused by the API server
    return StartupSeconds(**dict(zip(StartupSeconds.__struct_fields__, spans, strict=True)))
