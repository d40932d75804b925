"""``aictl chat``: what is asked, what is shown while it comes, and how it ends otherwise."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import CliRunner

from aictl.__main__ import main
from aictl.chat import PROMPT_BYTES, Answer, ask, check
from aictl.exits import Exit, Failure
from aictl.tunnel import Door
from aiinference.api.orders import InferenceService

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

BODY = {"model": "gemma", "messages": [{"role": "user", "content": "hi"}], "stream": True}


def chunk(content: str | None = None, finish: str | None = None) -> str:
    choice = {"index": 0, "delta": {"content": content} if content else {}, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice]})}\n\n"


class Gate:
    """Answers with these lines; keeps what it was asked."""

    def __init__(
        self, lines: Sequence[str], *, status: int = 200, pause: asyncio.Event | None = None
    ) -> None:
        self._lines = lines
        self._status = status
        self._pause = pause
        self.asked: list[tuple[str | None, Any]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.headers.get("authorization"), await request.json()))
        if self._status != 200:
            return web.Response(status=self._status, text="no")
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for line in self._lines:
            await response.write(line.encode())
            if self._pause:
                await self._pause.wait()
        return response


@asynccontextmanager
async def door(gate: Gate) -> AsyncIterator[Door]:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", gate.answer)
    async with TestServer(app) as server:
        assert server.port
        yield Door("127.0.0.1", server.port)


async def test_every_piece_is_shown_when_it_comes() -> None:
    go = asyncio.Event()
    gate = Gate([": ping\n\n", chunk("Hel"), chunk("lo"), chunk(finish="stop"), "data: [DONE]\n\n"], pause=go)
    said: list[str] = []

    def piece(text: str) -> None:
        said.append(text)

    async with door(gate) as way:
        asking = asyncio.create_task(ask(way, BODY, "key", piece, within=30))
        go.set()
        answer = await asking
    assert said == ["Hel", "lo"]
    assert (answer.text, answer.finish_reason, answer.model) == ("Hello", "stop", "gemma")
    assert gate.asked == [("Bearer key", BODY)]


async def test_an_open_model_is_asked_without_a_key() -> None:
    gate = Gate([chunk("x", "length"), "data: [DONE]\n\n"])
    async with door(gate) as way:
        answer = await ask(way, BODY, None, lambda _: None, within=30)
    assert answer.finish_reason == "length"
    assert gate.asked[0][0] is None


@pytest.mark.parametrize(("status", "code"), [(401, Exit.DENIED), (500, Exit.FAILED), (302, Exit.FAILED)])
async def test_a_refusal_is_told(status: int, code: Exit) -> None:
    async with door(Gate([], status=status)) as way:
        with pytest.raises(Failure) as caught:
            await ask(way, BODY, "key", lambda _: None, within=30)
    assert caught.value.code == code


@pytest.mark.parametrize("lines", [[], [chunk("half")], ["data: {]\n\n"], ["data: 5\n\n"]])
async def test_an_answer_that_is_no_whole_one_is_a_failure(lines: list[str]) -> None:
    async with door(Gate(lines)) as way:
        with pytest.raises(Failure) as caught:
            await ask(way, BODY, None, lambda _: None, within=30)
    assert caught.value.code == Exit.FAILED


async def test_an_answer_that_takes_too_long_is_given_up() -> None:
    async with door(Gate([chunk("x")], pause=asyncio.Event())) as way:
        with pytest.raises(Failure) as caught:
            await ask(way, BODY, None, lambda _: None, within=0.2)
    assert caught.value.code == Exit.TIMED_OUT


async def test_nobody_behind_the_door_is_a_failure() -> None:
    with pytest.raises(Failure) as caught:
        await ask(Door("127.0.0.1", 1), BODY, None, lambda _: None, within=5)
    assert caught.value.code == Exit.FAILED


def order(reason: str | None, endpoint: str | None = "Chat") -> InferenceService:
    said = {"type": "Ready", "lastTransitionTime": "2026-11-29T00:00:00Z", "message": "It is so."}
    ready = said | (
        {"status": "False", "reason": reason} if reason else {"status": "True", "reason": "Ready"}
    )
    model = {"endpointType": endpoint} if endpoint else {}
    return msgspec.convert(
        {
            "metadata": {"name": "llm", "namespace": "support"},
            "spec": {"model": {"src": "ai-models", "ref": {"kind": "Model", "name": "gemma"}}},
            "status": {"conditions": [ready], "model": model},
        },
        InferenceService,
    )


@pytest.mark.parametrize("endpoint", ["Chat", None])
def test_an_order_that_is_ready_can_be_talked_to(endpoint: str | None) -> None:
    check(order(None, endpoint), "support")


@pytest.mark.parametrize(
    ("reason", "endpoint", "code"),
    [
        ("Starting", "Chat", Exit.FAILED),
        ("QuantizationMismatch", "Chat", Exit.IMPOSSIBLE),
        (None, "Embeddings", Exit.IMPOSSIBLE),
    ],
)
def test_an_order_that_cannot_be_talked_to_says_why(reason: str | None, endpoint: str, code: Exit) -> None:
    with pytest.raises(Failure) as caught:
        check(order(reason, endpoint), "support")
    assert caught.value.code == code


def test_without_a_prompt_nothing_is_asked() -> None:
    found = CliRunner().invoke(main, ["chat", "llm"], input="\n")
    assert found.exit_code == Exit.USAGE
    assert "standard input" in found.output


def test_an_empty_argument_is_no_reason_to_read_standard_input() -> None:
    found = CliRunner().invoke(main, ["chat", "llm", ""], input="somebody else's words")
    assert found.exit_code == Exit.USAGE
    assert "no prompt" in found.output


@pytest.mark.parametrize("way", ["argument", "input"])
@pytest.mark.parametrize("letter", ["x", "\u00e9"])
def test_a_prompt_that_is_too_long_is_not_asked_by_half(way: str, letter: str) -> None:
    text = letter * (PROMPT_BYTES // len(letter.encode()) + 1)
    given = ["chat", "llm", *([text] if way == "argument" else [])]
    found = CliRunner().invoke(main, given, input=text if way == "input" else None)
    assert found.exit_code == Exit.USAGE
    assert f"longer than {PROMPT_BYTES} bytes" in found.output


def test_a_prompt_that_is_no_text_is_refused() -> None:
    found = CliRunner().invoke(main, ["chat", "llm"], input=b"\xff\xfe")
    assert found.exit_code == Exit.USAGE
    assert "no text" in found.output


def test_no_time_at_all_is_not_endless_time() -> None:
    found = CliRunner().invoke(main, ["chat", "llm", "hi", "--timeout", "0"])
    assert found.exit_code == Exit.USAGE
    assert "--timeout" in found.output


def test_an_answer_is_one_document() -> None:
    encoded = msgspec.to_builtins(Answer(model="gemma", text="hi", finish_reason="stop", seconds=1.5))
    assert encoded == {"model": "gemma", "text": "hi", "finishReason": "stop", "seconds": 1.5}
