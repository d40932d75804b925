"""ai-inference installed by Helm on a real node: its processes run, its class is usable, refusals say why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import openai
import pytest

from tests.kit import embedder, served
from tests.kit.controlplane import fresh_namespace
from tests.kit.inferenceapi import HUB, order
from tests.kit.served import Client
from tools.installation import INFERENCE_NAMESPACE, CommandFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.cluster import Platform

VECTORS = "embedder"

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]


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


@pytest.fixture(scope="module")
def embedding(inference: Platform, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return a namespace with an embedding model of the real size."""
    with fresh_namespace(inference.target.kubeconfig) as namespace:
        file = embedder.make(tmp_path_factory.mktemp("embedder") / "embedder.gguf")
        served.upload(inference, namespace, VECTORS, file)
        file.unlink()
        yield namespace


def _vectors(platform: Platform, namespace: str, name: str) -> list[list[float]]:
    user = Client(platform, namespace, name)
    with openai.OpenAI(base_url=user.url, api_key=user.key, max_retries=0) as client:
        made = client.embeddings.create(model=VECTORS, input=["a cat", "the law of torts"])
        return [one.embedding for one in made.data]


def test_an_embedding_model_is_served_as_one_under_the_shipped_class(
    inference: Platform, embedding: str
) -> None:
    told = inference.target.get("-n", embedding, "model", VECTORS)["status"]["resolved"]
    assert (told["supportedEndpointTypes"], told["facts"]["pooling"]) == (["Embeddings"], "last")
    with served.answering(inference, embedding, "vectors", model=VECTORS):
        status = inference.target.get("-n", embedding, "inferenceservice", "vectors")["status"]
        assert status["model"]["endpointType"] == "Embeddings"
        one, other = _vectors(inference, embedding, "vectors")
        assert (len(one), len(other), one == other) == (embedder.DIMENSIONS, embedder.DIMENSIONS, False)
        user = Client(inference, embedding, "vectors")
        with user.chat(user.key) as chat:
            assert chat.status == 404


def test_an_order_without_a_class_gets_what_the_model_can_do(inference: Platform, embedding: str) -> None:
    with served.answering(inference, embedding, "plain", model=VECTORS, klass=None):
        status = inference.target.get("-n", embedding, "inferenceservice", "plain")["status"]
        said = {one["type"]: one["reason"] for one in status["conditions"]}
        assert (said["ClassResolved"], "Planned" in said) == ("BuiltInPolicy", False)
        assert "model" not in status
        assert len(_vectors(inference, embedding, "plain")[0]) == embedder.DIMENSIONS
