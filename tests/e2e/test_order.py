"""An order on a real cluster: the uploaded model answers who has the key, until the very end."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import openai
import pytest

from tests.kit import served
from tests.kit.controlplane import fresh_namespace
from tests.kit.served import MODEL, ORDER, Client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openai.types.chat import ChatCompletionMessageParam

    from tests.kit.cluster import Platform

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Say hello."}]


@pytest.fixture(scope="module")
def ordered(inference: Platform) -> Iterator[str]:
    """Return a namespace in which a real model was uploaded and ordered, and answers."""
    with (
        fresh_namespace(inference.target.kubeconfig) as namespace,
        served.ordered(inference, namespace) as answering,
    ):
        yield answering


def _aictl(platform: Platform, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aictl", *words, "--kubeconfig", str(platform.target.kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)


def test_an_order_answers_who_has_its_key(inference: Platform, ordered: str) -> None:
    status = inference.target.get("-n", ordered, "inferenceservice", ORDER)["status"]
    assert (status["phase"], status["model"]["endpointType"]) == ("Ready", "Chat")
    assert status["resolved"]["deviceClass"] == "cpu"
    client = Client(inference, ordered)
    with client.chat("wrong-key-wrong-key-wrong") as refused:
        assert refused.status == 401
    with client.ask("/v1/embeddings", client.key, input="x") as unknown:
        assert unknown.status == 404
    with client.chat(client.key, max_tokens=4) as whole:
        assert json.loads(whole.read())["usage"]["completion_tokens"] == 4


def test_openais_own_client_needs_no_change(inference: Platform, ordered: str) -> None:
    user = Client(inference, ordered)
    with openai.OpenAI(base_url=user.url, api_key=user.key, max_retries=0) as client:
        assert [model.id for model in client.models.list()] == [MODEL]
        told = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=8, temperature=0)
        assert told.choices[0].message.content
        stream = client.chat.completions.create(
            model=MODEL, messages=HELLO, max_tokens=8, temperature=0, stream=True
        )
        said = "".join(piece.choices[0].delta.content or "" for piece in stream)
        assert said == told.choices[0].message.content
        text = client.completions.create(model=MODEL, prompt="1, 2, 3, 4,", max_tokens=6, temperature=0)
        assert "5" in text.choices[0].text
        with pytest.raises(openai.NotFoundError):
            client.embeddings.create(model=MODEL, input="a chat model makes no vectors")
    with (
        openai.OpenAI(base_url=user.url, api_key="wrong-key-wrong-key-wrong", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.chat.completions.create(model=MODEL, messages=HELLO)


def test_aictl_chats_with_the_order_and_says_that_nothing_is_waited_for(
    inference: Platform, ordered: str
) -> None:
    chatted = _aictl(inference, "chat", f"{ordered}/{ORDER}", "Say hello.", "--max-tokens", "8", "--json")
    assert chatted.returncode == 0, chatted.stderr
    answer = json.loads(chatted.stdout)
    assert (answer["model"], answer["finishReason"]) == (MODEL, "length")
    assert answer["text"].strip()
    told = _aictl(inference, "why", f"{ordered}/{ORDER}")
    assert (told.returncode, told.stderr) == (0, "")
    assert f"{ordered}/{ORDER} is Ready" in told.stdout


def test_a_replica_that_goes_finishes_the_answer_that_it_has_begun(inference: Platform, ordered: str) -> None:
    client = Client(inference, ordered)
    with client.chat(client.key, max_tokens=150, stream=True, ignore_eos=True) as stream:
        assert stream.status == 200
        assert stream.readline().startswith(b"data: {")
        inference.target.kubectl("-n", ordered, "delete", "pod", f"{ORDER}-0", "--wait=false")
        lines = [line.strip() for line in stream if line.strip()]
    assert lines[-1] == b"data: [DONE]", "the answer was cut off"
    assert len(lines) >= 150
