"""Why a Pod does not run, in the words of the scheduler or the kubelet.

What belongs here: reading a Pod's status. What does not: whether that is worth telling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.resources import Pod

_SHOWN = 512
#: the two take turns, with the same cause: told as one
_PULLING = frozenset({"ErrImagePull", "ImagePullBackOff"})
#: on the way, not held up
_BEGINNING = frozenset({"ContainerCreating", "PodInitializing"})


def why_not_running(pods: Iterable[Pod]) -> str:
    """Return why one of the Pods does not run; empty when nothing holds them up."""
    for pod in pods:
        scheduled = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
        if scheduled is not None and scheduled.status != "True":
            return scheduled.message[:_SHOWN]
        for container in pod.status.container_statuses:
            held = container.state.waiting
            if held is not None and held.reason not in _BEGINNING:
                return _words(held.reason, held.message)[:_SHOWN]
    return ""


def _words(reason: str, message: str) -> str:
    if reason in _PULLING:
        reason, message = "ErrImagePull", message.rpartition("ErrImagePull: ")[2]
    return f"{reason}: {message}"
