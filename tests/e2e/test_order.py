"""An order on a real cluster: the uploaded model answers who has the key, until the very end."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import openai
import pytest

from devcluster.ingress import DOMAIN
from tests.kit import served
from tests.kit.controlplane import fresh_namespace
from tests.kit.entrance import route
from tests.kit.journey import until
from tests.kit.served import CHAT, MODEL, ORDER, Client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openai.types.chat import ChatCompletionMessageParam

    from tests.kit.cluster import Platform
    from tests.kit.entrance import Entrance

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


@pytest.mark.parametrize("by", ["Ingress", "HTTPRoute"])
def test_it_answers_outside_the_cluster_piece_by_piece_and_by_its_key_alone(
    inference: Platform, ordered: str, entrance: Entrance, by: str
) -> None:
    endpoint = inference.target.get("-n", ordered, "inferenceservice", ORDER)["status"]["endpoint"]
    host = endpoint["domain"]
    assert (endpoint["type"], endpoint["url"]) == ("External", f"https://{host}")
    if by == "Ingress":
        entrance.certify(ordered, f"{ORDER}-tls")
    else:
        host = f"{ordered}.{DOMAIN}"
        entrance.apply(route(ordered, ORDER, host, ORDER, 80))
    until(lambda: entrance.asked(host, CHAT, "wrong-key-wrong-key-wrong") == 401, 60, "the gate is reached")
    if by == "Ingress":
        assert entrance.asked(host, "/metrics", "") == 404, "only the API's paths lead in"
    body = {"model": MODEL, "messages": HELLO, "max_tokens": 150, "stream": True, "ignore_eos": True}
    with entrance.posted(host, CHAT, Client(inference, ordered).key, body) as answer:
        pieces = list(iter(answer.read1, b""))
    text = b"".join(pieces)
    assert text.count(b"data: {") >= 150
    assert text.endswith(b"data: [DONE]\n\n")
    # However late they are read: what was held back on the way begins with more than that.
    assert pieces[0].count(b"data: {") < 75


def test_a_replica_that_goes_finishes_the_answer_that_it_has_begun(inference: Platform, ordered: str) -> None:
    client = Client(inference, ordered)
    with client.chat(client.key, max_tokens=150, stream=True, ignore_eos=True) as stream:
        assert stream.status == 200
        assert stream.readline().startswith(b"data: {")
        inference.target.kubectl("-n", ordered, "delete", "pod", f"{ORDER}-0", "--wait=false")
        lines = [line.strip() for line in stream if line.strip()]
    assert lines[-1] == b"data: [DONE]", "the answer was cut off"
    assert len(lines) >= 150
