"""A real runtime behind the real gate: answers, streams, vectors, metrics."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from aiinference.probes.client import Prober
from aiinference.probes.questions import question
from tests.kit.inferencegate import CHAT_ROUTES, KEY, RunningGate
from tests.kit.llama import NAME, Llama
from tests.kit.rawhttp import Wire, ask, request
from tools.demo import gemma

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

BEARER = f"Authorization: Bearer {KEY}"
LEAN = ("--no-ui", "--no-slots", "--metrics", "--fit", "off", "--cache-ram", "0", "--ctx-checkpoints", "0")
ROUTES = (*CHAT_ROUTES, "POST=/v1/embeddings")

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGate]:
    folder = tmp_path_factory.mktemp("llama")
    options = (*LEAN, "--embedding", "--pooling", "mean", "--parallel", "2", "--no-kv-unified")
    async with (
        Llama(gemma.fetch(), folder / "llama.log", *options) as llama,
        RunningGate(folder, llama.port, keys={"token": KEY}, routes=ROUTES) as running,
    ):
        yield running


def _json(**fields: Any) -> bytes:
    return json.dumps({"model": NAME, **fields}).encode()


async def test_the_model_has_the_name_it_was_given(gate: RunningGate) -> None:
    answer = await ask(gate.port, "GET", "/v1/models", BEARER)
    assert [model["id"] for model in json.loads(answer.body)["data"]] == [NAME]


async def test_a_chat_is_answered(gate: RunningGate) -> None:
    body = _json(messages=[{"role": "user", "content": "Say hello."}], max_tokens=4, temperature=0)
    answer = await ask(gate.port, "POST", "/v1/chat/completions", BEARER, body=body)
    said = json.loads(answer.body)
    assert (answer.status, said["choices"][0]["message"]["role"]) == (200, "assistant")
    assert said["usage"]["completion_tokens"] == 4


@pytest.mark.parametrize("endpoint_type", ["Chat", "Embeddings", None])
async def test_a_probe_of_every_kind_is_answered(gate: RunningGate, endpoint_type: str | None) -> None:
    async with Prober() as prober:
        outcome = await prober.ask("127.0.0.1", gate.port, question(endpoint_type, NAME), KEY)
        assert outcome.wrong == ""
        unknown = await prober.ask("127.0.0.1", gate.port, question(None, "another"), KEY)
        assert "the model another is not in its list" in unknown.wrong


async def test_a_stream_comes_token_by_token(gate: RunningGate) -> None:
    body = _json(prompt="One, two,", max_tokens=6, temperature=0, stream=True)
    async with Wire(gate.port) as wire:
        await wire.send(request("POST", "/v1/completions", BEARER, body=body))
        head = await wire.head()
        assert (head.status, head.headers["content-type"].split(";")[0]) == (200, "text/event-stream")
        text = await wire.until(b"data: [DONE]")
    assert text.count(b'"text":') >= 6


async def test_requests_that_wait_for_their_turn_hold_no_probe_up(gate: RunningGate) -> None:
    """A Pod that is busy must not be taken for one that is ill."""
    body = _json(prompt="Once", max_tokens=500, ignore_eos=True)
    waiting = [
        asyncio.create_task(ask(gate.port, "POST", "/v1/completions", BEARER, body=body)) for _ in range(40)
    ]
    metrics = await ask(gate.metrics_port, "GET", "/metrics")
    while b"llamacpp:requests_deferred 0\n" in metrics.body:
        metrics = await ask(gate.metrics_port, "GET", "/metrics")
    assert (await ask(gate.port, "GET", "/health")).status == 200
    assert not any(task.done() for task in waiting)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_vectors_have_one_length(gate: RunningGate) -> None:
    answer = await ask(gate.port, "POST", "/v1/embeddings", BEARER, body=_json(input=["a", "b"]))
    assert answer.status == 200
    vectors = [item["embedding"] for item in json.loads(answer.body)["data"]]
    assert {len(vector) for vector in vectors} == {640}
    assert vectors[0] != vectors[1]


async def test_metrics_are_the_runtimes(gate: RunningGate) -> None:
    answer = await ask(gate.metrics_port, "GET", "/metrics")
    assert b"llamacpp:prompt_tokens_total" in answer.body


async def test_what_the_runtime_would_serve_beside_the_api_stays_inside(gate: RunningGate) -> None:
    for path in ("/props", "/slots", "/tokenize", "/completion", "/infill", "/lora-adapters"):
        assert (await ask(gate.port, "GET", path, BEARER)).status == 404


async def test_a_score_is_an_answer_too(tmp_path: Path) -> None:
    async with Llama(gemma.fetch(), tmp_path / "log", *LEAN, "--rerank") as llama, Prober() as prober:
        assert (await prober.ask("127.0.0.1", llama.port, question("Rerank", NAME), None)).wrong == ""
