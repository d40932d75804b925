from __future__ import annotations

import pytest

from aimodels.catalog.observe import _waiting
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
RUNNING = PodStatus(container_statuses=[ContainerStatus(ready=True)])


@pytest.mark.parametrize(
    ("status", "text"),
    [(UNSCHEDULABLE, "0/1 nodes are available"), (WITHOUT_IMAGE, "ImagePullBackOff: no host"), (RUNNING, "")],
)
def test_why_a_publication_does_not_run_is_found_at_its_pod(status: PodStatus, text: str) -> None:
    assert _waiting([Pod(status=status)]) == text


def test_a_job_without_a_pod_says_nothing() -> None:
    assert _waiting([]) == ""
