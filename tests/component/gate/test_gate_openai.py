"""OpenAI's own Python client, unchanged, before the gate: real answers, and refusals as it knows them."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import openai
import pytest
import pytest_asyncio

from tests.kit.inferencegate import CHAT_ROUTES, KEY, OTHER_KEY, RunningGate
from tests.kit.llama import NAME, Llama
from tests.kit.rawhttp import Backend
from tools.demo import gemma

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from openai.types.chat import ChatCompletionMessageParam

SERVED = ("--no-ui", "--no-slots", "--embedding", "--pooling", "mean", "--cache-ram", "0", "--fit", "off")
HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Say hello."}]

LIST = json.dumps({"object": "list", "data": [{"id": NAME, "object": "model"}]}).encode()

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGate]:
    folder = tmp_path_factory.mktemp("openai")
    routes = (*CHAT_ROUTES, "POST=/v1/embeddings")
    async with (
        Llama(gemma.fetch(), folder / "llama.log", *SERVED) as llama,
        RunningGate(folder, llama.port, keys={"token": KEY}, routes=routes) as running,
    ):
        yield running


@asynccontextmanager
async def client(gate: RunningGate, key: str = KEY, retries: int = 0) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"http://127.0.0.1:{gate.port}/v1", api_key=key, max_retries=retries
    ) as made:
        yield made


async def test_the_client_chats_whole_and_in_pieces(gate: RunningGate) -> None:
    async with client(gate) as asked:
        whole = await asked.chat.completions.create(
            model=NAME, messages=HELLO, max_tokens=8, temperature=0, seed=0
        )
        assert (whole.choices[0].finish_reason, whole.choices[0].message.role) == ("length", "assistant")
        assert whole.usage
        assert whole.usage.completion_tokens == 8
        pieces = [
            piece
            async for piece in await asked.chat.completions.create(
                model=NAME, messages=HELLO, max_tokens=8, temperature=0, seed=0, stream=True
            )
        ]
    assert len(pieces) > 8
    said = "".join(piece.choices[0].delta.content or "" for piece in pieces)
    assert said == whole.choices[0].message.content
    assert pieces[-1].choices[0].finish_reason == "length"


async def test_the_client_completes_a_text(gate: RunningGate) -> None:
    async with client(gate) as asked:
        whole = await asked.completions.create(model=NAME, prompt="1, 2, 3, 4,", max_tokens=6, temperature=0)
        assert "5" in whole.choices[0].text
        stream = await asked.completions.create(
            model=NAME, prompt="1, 2, 3, 4,", max_tokens=6, temperature=0, stream=True
        )
        assert "".join([piece.choices[0].text async for piece in stream]) == whole.choices[0].text


async def test_the_client_gets_vectors_and_the_list_of_models(gate: RunningGate) -> None:
    async with client(gate) as asked:
        vectors = await asked.embeddings.create(model=NAME, input=["a", "b"])
        assert [(one.index, len(one.embedding)) for one in vectors.data] == [(0, 640), (1, 640)]
        floats = await asked.embeddings.create(model=NAME, input=["a"], encoding_format="float")
        assert floats.data[0].embedding == pytest.approx(vectors.data[0].embedding, abs=1e-3)
        assert await _models(asked) == [NAME]


async def test_a_wrong_key_is_what_the_client_knows_it_as(gate: RunningGate) -> None:
    async with client(gate, OTHER_KEY) as asked:
        with pytest.raises(openai.AuthenticationError) as refused:
            await asked.chat.completions.create(model=NAME, messages=HELLO)
        assert refused.value.code == "invalid_api_key"
        assert "status.authSecretName" in str(refused.value)


async def test_other_refusals_are_what_the_client_knows_them_as(tmp_path: Path) -> None:
    async with (
        Backend() as backend,
        RunningGate(tmp_path, backend.port, "--body-limit", "1000", keys={"token": KEY}) as gate,
        client(gate) as asked,
    ):
        with pytest.raises(openai.NotFoundError) as unknown:
            await asked.embeddings.create(model=NAME, input="a")
        assert unknown.value.code == "unknown_url"
        with pytest.raises(openai.APIStatusError) as large:
            await asked.completions.create(model=NAME, prompt="x" * 2000)
        assert (large.value.status_code, large.value.code) == (413, "request_too_large")
        await backend.stop()
        with pytest.raises(openai.InternalServerError) as absent:
            await asked.models.list()
        assert (absent.value.status_code, absent.value.code) == (503, "model_not_available")


async def test_a_client_that_asks_too_much_at_once_waits_and_is_served(tmp_path: Path) -> None:
    async with (
        Backend() as backend,
        RunningGate(tmp_path, backend.port, "--client-requests", "1", keys={"token": KEY}) as gate,
        client(gate) as hasty,
        client(gate, retries=5) as patient,
    ):
        first = asyncio.create_task(_models(patient))
        held = await backend.next()
        with pytest.raises(openai.RateLimitError) as refused:
            await _models(hasty)
        assert refused.value.code == "rate_limit_exceeded"
        second = asyncio.create_task(_models(patient))
        await held.answer(LIST)
        assert await first == [NAME]
        await (await backend.next()).answer(LIST)
        assert await second == [NAME]


async def _models(asked: openai.AsyncOpenAI) -> list[str]:
    return [model.id async for model in asked.models.list()]
