from __future__ import annotations

import pytest

from kubekit.pods import why_not_running
from kubekit.resources import ContainerState, ContainerStateWaiting, ContainerStatus, Pod, PodStatus
from kubekit.resources.core import PodCondition


def waits(reason: str, message: str) -> PodStatus:
    """Return the status of a Pod that has its node."""
    held = ContainerState(waiting=ContainerStateWaiting(reason=reason, message=message))
    return PodStatus(
        conditions=[PodCondition(type="PodScheduled", status="True")],
        container_statuses=[ContainerStatus(state=held)],
    )


UNSCHEDULABLE = PodStatus(
    conditions=[PodCondition(type="PodScheduled", status="False", message="0/1 nodes are available")]
)
BEGINNING = waits("ContainerCreating", "")
RUNNING = PodStatus(container_statuses=[ContainerStatus(ready=True)])


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (UNSCHEDULABLE, "0/1 nodes are available"),
        (waits("ErrImagePull", "rpc error: no host"), "ErrImagePull: rpc error: no host"),
        (
            waits("ImagePullBackOff", 'Back-off pulling image "x:1": ErrImagePull: rpc error: no host'),
            "ErrImagePull: rpc error: no host",
        ),
        (
            waits("ImagePullBackOff", 'Back-off pulling image "x:1"'),
            'ErrImagePull: Back-off pulling image "x:1"',
        ),
        (waits("CreateContainerConfigError", "no key"), "CreateContainerConfigError: no key"),
        (BEGINNING, ""),
        (RUNNING, ""),
    ],
)
def test_why_a_pod_does_not_run_is_found_in_its_status(status: PodStatus, text: str) -> None:
    assert why_not_running([Pod(status=status)]) == text


def test_no_pod_says_nothing() -> None:
    assert why_not_running([]) == ""
