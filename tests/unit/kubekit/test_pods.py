from __future__ import annotations

import pytest

from kubekit.pods import why_not_running
from kubekit.resources import ContainerState, ContainerStateWaiting, ContainerStatus, Pod, PodStatus
from kubekit.resources.core import PodCondition

UNSCHEDULABLE = PodStatus(
    conditions=[PodCondition(type="PodScheduled", status="False", message="0/1 nodes are available")]
)
WITHOUT_IMAGE = PodStatus(
    conditions=[PodCondition(type="PodScheduled", status="True")],
    container_statuses=[
        ContainerStatus(
            state=ContainerState(waiting=ContainerStateWaiting(reason="ImagePullBackOff", message="no host"))
        )
    ],
)
BEGINNING = PodStatus(
    container_statuses=[
        ContainerStatus(state=ContainerState(waiting=ContainerStateWaiting(reason="ContainerCreating")))
    ]
)
RUNNING = PodStatus(container_statuses=[ContainerStatus(ready=True)])


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (UNSCHEDULABLE, "0/1 nodes are available"),
        (WITHOUT_IMAGE, "ImagePullBackOff: no host"),
        (BEGINNING, ""),
        (RUNNING, ""),
    ],
)
def test_why_a_pod_does_not_run_is_found_in_its_status(status: PodStatus, text: str) -> None:
    assert why_not_running([Pod(status=status)]) == text


def test_no_pod_says_nothing() -> None:
    assert why_not_running([]) == ""
