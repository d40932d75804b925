"""ai-inference installed by Helm on a real node: its processes run, its class is usable, refusals say why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.kit.inferenceapi import HUB, order
from tools.installation import INFERENCE_NAMESPACE, CommandFailed

if TYPE_CHECKING:
    from tests.kit.cluster import Platform

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]


def test_the_shipped_class_becomes_ready(inference: Platform) -> None:
    inference.target.kubectl(
        "wait", "inferenceserviceclass/default-llm", "--for=condition=Ready", "--timeout=60s"
    )
    row = inference.target.kubectl("get", "infsc", "default-llm", "--no-headers").split()
    assert row[:4] == ["default-llm", "Ready", '["Chat","Embeddings","Rerank"]', "External"]


def test_the_namespace_takes_restricted_pods_only(inference: Platform) -> None:
    labels = inference.target.get("namespace", INFERENCE_NAMESPACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_a_wrong_order_is_refused_with_words(inference: Platform, tenant: str) -> None:
    model = HUB | {"ref": HUB["ref"] | {"namespace": tenant}}
    with pytest.raises(CommandFailed, match=r"belongs to no namespace; remove ref\.namespace"):
        inference.target.kubectl("apply", "-f", "-", stdin=json.dumps(order("wrong", tenant, model)))
