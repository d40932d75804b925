"""Why a Pod of an order does not run, in the words of the API. Pure.

What belongs here: from a Pod's status to one reason. What does not: what is done about it.

The runtime's last lines are in the status already: its container ends with them as its message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from aiinference.api.reasons import OrderReason
from aiinference.probes import logs
from aiinference.workload.names import RUNTIME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.resources import ContainerStatus, Pod
    from kubekit.resources.core import ContainerStateTerminated

_PULLING = frozenset(
    {
        *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"),
        *("ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"),
    }
)
_CREATING = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "StartError",
        "PreStartHookError",
    }
)
_DELIVERY = re.compile(r'persistentvolumeclaim "ai-(cluster)?model-[^"]*" (not found|is being deleted)')
_KILLED = frozenset({137, 143})
_SHOWN = 400


@dataclass(frozen=True)
class Failure:
    """What stands in the way, why, and what to do; ``container`` is empty when it is the Pod itself."""

    reason: OrderReason
    message: str
    container: str = ""


def explain(pod: Pod, startup_seconds: int) -> Failure | None:
    """Return what keeps a Pod from running; None when nothing does, or nothing is known yet."""
    name = pod.metadata.name
    found = next(_failures(pod, timedelta(seconds=startup_seconds)), None)
    return found and Failure(found.reason, f"Pod {name}: {found.message}", found.container)


def _failures(pod: Pod, allowed: timedelta) -> Iterator[Failure]:
    yield from _unscheduled(pod)
    if pod.status.reason == "Evicted":
        memory = "memory" in pod.status.message.lower()
        yield Failure(
            OrderReason.OUT_OF_MEMORY if memory else OrderReason.RUNTIME_CRASHED,
            f"it was evicted from its node: {_short(pod.status.message)} Another one takes its place.",
        )
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        yield from _container(status, allowed)


def _unscheduled(pod: Pod) -> Iterator[Failure]:
    condition = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
    if condition is None or condition.status == "True" or not condition.message:
        return
    if _DELIVERY.search(condition.message):
        yield Failure(
            OrderReason.MODEL_DELIVERY_PENDING,
            "it waits until ai-models has brought the model here; the StatefulSet's annotation "
            "ai.deckhouse.io/model-delivery-blocked-reason says when something is in the way.",
        )
        return
    yield Failure(
        OrderReason.UNSCHEDULABLE,
        f"no node takes it: {_short(condition.message)} Free or add what is missing, or take another class.",
    )


def _container(status: ContainerStatus, allowed: timedelta) -> Iterator[Failure]:
    waiting = status.state.waiting
    if waiting and waiting.reason in _PULLING:
        yield Failure(
            OrderReason.IMAGE_PULL_FAILED,
            f"the image {status.image or 'of ' + status.name} cannot be fetched: {_short(waiting.message)} "
            "Check the image's name, the registry and the node's access to it.",
            status.name,
        )
    if waiting and waiting.reason in _CREATING:
        yield Failure(
            OrderReason.RUNTIME_CRASHED,
            f"the container {status.name} cannot be started: {_short(waiting.message or waiting.reason)}",
            status.name,
        )
    ended = status.state.terminated or (status.last_state.terminated if not status.ready else None)
    if ended and (ended.exit_code or status.name == RUNTIME):
        yield _ended(status, ended, allowed)


def _ended(status: ContainerStatus, ended: ContainerStateTerminated, allowed: timedelta) -> Failure:
    times = f", {status.restart_count} times so far" if status.restart_count > 1 else ""
    line = logs.meaningful(ended.message)
    told = f" Its last words: {_short(line)}" if line else ""
    if ended.reason == "OOMKilled":
        return Failure(
            OrderReason.OUT_OF_MEMORY,
            f"the container {status.name} needed more memory than its limit and was ended{times}.{told} "
            "Order a smaller model, or raise the recipe's memory.",
            status.name,
        )
    if ended.exit_code in _KILLED and _lasted(ended) >= allowed:
        return Failure(
            OrderReason.STARTUP_DEADLINE_EXCEEDED,
            f"the model was not loaded within {allowed.total_seconds():g} s; the runtime was ended{times}."
            f"{told} Look at the speed of the model's volume.",
            status.name,
        )
    reason = logs.kind(ended.message) or OrderReason.RUNTIME_CRASHED
    return Failure(
        reason,
        f"the container {status.name} ended with exit code {ended.exit_code}{times}.{told} {_NEXT[reason]}",
        status.name,
    )


_NEXT = {
    OrderReason.OUT_OF_MEMORY: "Order a smaller model, or raise the recipe's memory.",
    OrderReason.INVALID_ARGUMENT: "The recipe does not fit the runtime's version: tell the administrator.",
    OrderReason.RUNTIME_CRASHED: "It is started again; its log says more.",
}


def _lasted(ended: ContainerStateTerminated) -> timedelta:
    if ended.started_at is None or ended.finished_at is None:
        return timedelta()
    return ended.finished_at - ended.started_at


def _short(text: str) -> str:
    text = logs.plain(text)
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return text if text.endswith((".", "!", "?")) else f"{text}."
