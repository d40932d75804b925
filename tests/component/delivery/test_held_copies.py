"""Copies that cannot run: what their workload is told, and who has the place meanwhile."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from aimodels.delivery import decide
from aimodels.delivery.names import BLOCKED_MESSAGE_ANNOTATION, TARGET_ANNOTATION
from aimodels.jobs import observed
from kubekit.resources import Deployment, Job
from tests.kit.delivery import delivering
from tests.kit.eventually import eventually
from tests.kit.quota import limited, unlimited

if TYPE_CHECKING:
    from tests.kit.delivery import World


@pytest.fixture(autouse=True)
def _everything_is_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed, "TOLD_AFTER", 0.0)
    monkeypatch.setattr(decide, "_LOOK_FOR_POD", 0.2)


async def says(made: World, words: str) -> bool:
    found = await made.client.get(Deployment, "app", made.namespace)
    return words in found.metadata.annotations.get(BLOCKED_MESSAGE_ANNOTATION, "")


async def test_a_copy_whose_pod_has_no_node_says_so(made: World) -> None:
    made.kubelet_works.clear()
    await made.model("gemma")
    await made.workload("app", model="gemma")
    async with delivering(made):
        await eventually(partial(says, made, "Its Pod does not run: no nodes available"))
        made.kubelet_works.set()
        await made.bound("ai-model-gemma-1")


@pytest.mark.parametrize(
    ("hard", "words"),
    [
        ({"pods": "0"}, "Error creating: pods"),
        ({"count/jobs.batch": "0"}, "does not take the copy's Job: jobs.batch"),
        (
            {"persistentvolumeclaims": "0"},
            "does not take the copy's PersistentVolumeClaim: persistentvolumec",
        ),
    ],
    ids=["Pods", "Jobs", "claims"],
)
async def test_what_the_modules_namespace_does_not_take_is_told_and_waited_for(
    made: World, hard: dict[str, str], words: str
) -> None:
    await limited(made.client, made.module_namespace, hard)
    await made.model("gemma")
    await made.workload("app", model="gemma")
    async with delivering(made):
        await eventually(partial(says, made, words))
        assert await says(made, "exceeded quota")
        await unlimited(made.client, made.module_namespace)
        await made.annotate(Deployment, "app", nudge="1")
        await made.bound("ai-model-gemma-1")


async def test_a_copy_that_waits_is_made_anew_with_a_corrected_image(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observed, "MOST_HELD", 0.0)
    made.kubelet_works.clear()

    async def image() -> str:
        jobs = await made.client.list(Job, made.module_namespace)
        return "".join(job.spec.template["spec"]["containers"][0]["image"] for job in jobs)

    async def is_made_with(wanted: str) -> bool:
        return await image() == wanted

    await made.model("gemma")
    await made.workload("app", model="gemma")
    async with delivering(made, image="example.com/typo:1"):
        await eventually(partial(says, made, "Its Pod does not run: no nodes available"))
        assert await image() == "example.com/typo:1"
    async with delivering(made, image="example.com/right:1"):
        await eventually(partial(is_made_with, "example.com/right:1"))
        made.kubelet_works.set()
        await made.bound("ai-model-gemma-1")


async def test_copies_that_cannot_run_take_turns_and_hold_no_place_from_one_that_can(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observed, "MOST_HELD", 1.5)
    made.kubelet_works.clear()
    tried: list[str] = []

    async def both_again() -> bool:
        jobs = await made.client.list(Job, made.module_namespace)
        assert len(jobs) <= 1, "one place is one place"
        for job in jobs:
            target = job.metadata.annotations[TARGET_ANNOTATION]
            if not tried or tried[-1] != target:
                tried.append(target)
        return len(tried) >= 3

    for name in ("m-0", "m-1"):
        await made.model(name)
    await made.workload("app", model="m-0,m-1")
    async with delivering(made, most_copies=1):
        await eventually(both_again)
        made.kubelet_works.set()
        for name in ("m-0", "m-1"):
            await made.bound(f"ai-model-{name}-1")
