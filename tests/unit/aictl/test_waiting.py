"""Waiting for an order: what is said on the way, and when waiting does not help."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aictl.exits import Exit, Failure
from aictl.waiting import document, give_up, state
from aiinference.api.orders import InferenceService

SINCE = "2026-11-29T00:00:00Z"


def order(
    reason: str = "", *, phase: str = "Pending", deleted: bool = False, **status: Any
) -> InferenceService:
    said = {
        "type": "WorkloadReady",
        "status": "False" if reason else "True",
        "reason": reason or "WorkloadReady",
    }
    conditions = [said | {"message": "It is so.", "lastTransitionTime": SINCE}]
    metadata = {"name": "llm", "namespace": "support"} | ({"deletionTimestamp": SINCE} if deleted else {})
    return msgspec.convert(
        {
            "metadata": metadata,
            "spec": {"model": {"src": "ai-models", "ref": {"kind": "Model", "name": "gemma"}}},
            "status": {"phase": phase, "conditions": conditions} | status,
        },
        InferenceService,
    )


@pytest.mark.parametrize("reason", ["Starting", "NoCapacity", "ModelNotReady", "ImagePullFailed", ""])
def test_what_may_pass_is_waited_for(reason: str) -> None:
    give_up(order(reason), "support")


@pytest.mark.parametrize(
    "found",
    [
        order("QuantizationMismatch"),
        order("NoCompatibleRuntimeAvailable"),
        order("ServiceUnhealthy", phase="Failed"),
        order("Starting", deleted=True),
    ],
)
def test_what_cannot_become_ready_is_given_up(found: InferenceService) -> None:
    with pytest.raises(Failure) as caught:
        give_up(found, "support")
    assert caught.value.code == Exit.IMPOSSIBLE


def test_a_start_tells_how_far_it_is() -> None:
    assert state(order("Starting", startup={"phase": "Loading"})) == "Pending  Starting  Loading  It is so."
    assert state(order(phase="Ready")) == "Ready"
    assert state(msgspec.structs.replace(order(), status=None)) == "not looked at by a controller"


def test_the_document_tells_where_the_api_is() -> None:
    endpoint = {"type": "External", "url": "https://llm.example", "inClusterUrl": "http://llm.support.svc"}
    found = document(order(phase="Ready", endpoint=endpoint, authSecretName="llm-auth"))
    assert found == {
        "kind": "InferenceService",
        "namespace": "support",
        "name": "llm",
        "phase": "Ready",
        "reason": "Ready",
        "message": "",
        "url": "https://llm.example",
        "inClusterUrl": "http://llm.support.svc",
        "authSecretName": "llm-auth",
    }
