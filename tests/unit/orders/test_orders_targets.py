"""Who is asked, and when silence is a start."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from aiinference.orders.targets import target
from aiinference.workload import names
from kubekit.errors import Forbidden
from kubekit.resources import Pod, Secret
from tests.kit.orderstates import observed, workload

if TYPE_CHECKING:
    from kubekit.resources import StatefulSet

NEW, OLD = "sha256:new", "sha256:old"
UP, STARTING = {"name": "runtime", "started": True}, {"name": "runtime", "started": False}
ENDED = {"name": "runtime", "started": False, "restartCount": 2}


def pod(plan: str, *statuses: dict[str, Any], ready: bool = False) -> Pod:
    status: dict[str, Any] = {"containerStatuses": statuses, "podIP": "10.0.0.1"}
    if ready:
        status["conditions"] = [{"type": "Ready", "status": "True"}]
    metadata = {"name": "support-llm-0", "annotations": {names.PLAN_ANNOTATION: plan}}
    return msgspec.convert({"metadata": metadata, "status": status}, Pod)


def strategy(kind: str, replicas: int = 1) -> StatefulSet:
    made = workload(noted={names.PLAN_ANNOTATION: NEW}, replicas=replicas)
    told = msgspec.structs.replace(made.spec.update_strategy, type=kind)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, update_strategy=told))


@pytest.mark.parametrize(
    ("kind", "pods", "by_hand"),
    [
        ("OnDelete", (pod(NEW, UP),), False),
        ("OnDelete", (pod(NEW, ENDED),), False),
        ("OnDelete", (pod(OLD, UP),), True),
        ("OnDelete", (pod(NEW, STARTING),), True),
        ("OnDelete", (pod(NEW),), True),
        ("OnDelete", (), True),
        ("RollingUpdate", (pod(OLD, UP),), False),
        ("RollingUpdate", (), False),
    ],
)
def test_replicas_that_people_replace_are_told_from_those_that_fail(
    kind: str, pods: tuple[Pod, ...], *, by_hand: bool
) -> None:
    running = strategy(kind)
    assert target(observed(running=running, pods=pods), running, None).by_hand is by_hand


def test_while_the_secret_cannot_be_read_the_key_of_before_is_used() -> None:
    running = workload()
    o = observed(running=running, pods=(pod(NEW, UP, ready=True),))
    assert target(o, running, "before").key is None
    asked = target(replace(o, unread=Forbidden(403, "Forbidden", "no")), running, "before")
    assert (asked.key, asked.addresses) == ("before", ("10.0.0.1",))
    known = replace(o, secret=Secret(data={"token": b"now"}))
    assert target(known, running, "before").key == "now"
