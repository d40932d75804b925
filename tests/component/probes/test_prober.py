"""Asking an order through the real gate: what counts, what does not, and that nothing holds the asker up."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from aiinference.probes.client import Prober
from aiinference.probes.questions import ANSWER_LIMIT, question
from tests.kit.dmcr import free_port
from tests.kit.inferencegate import KEY, OTHER_KEY, RunningGate
from tests.kit.rawhttp import Backend, Exchange

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

CHAT = question("Chat", "llm")
GOOD = {"choices": [{"message": {"role": "assistant", "content": "x"}, "finish_reason": "length"}]}


@pytest_asyncio.fixture
async def backend() -> AsyncIterator[Backend]:
    async with Backend() as running:
        yield running


@pytest_asyncio.fixture
async def prober() -> AsyncIterator[Prober]:
    async with Prober(answer_seconds=30) as running:
        yield running


async def _asked(prober: Prober, backend: Backend, *pieces: bytes) -> str:
    """Ask the backend itself, which answers with these bytes; return what was wrong."""
    asking = asyncio.create_task(prober.ask("127.0.0.1", backend.port, CHAT, KEY))
    exchange = await backend.next()
    await exchange.body()
    with suppress(OSError):  # whoever has heard enough goes away
        await exchange.send(*pieces)
    exchange.writer.close()
    return (await asking).wrong


def _answer(body: Any, status: str = "200 OK") -> bytes:
    text = json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text


async def test_an_order_is_asked_like_by_a_user(backend: Backend, prober: Prober, tmp_path: Path) -> None:
    async def answer(exchange: Exchange) -> None:
        assert json.loads(await exchange.reader.readexactly(len(CHAT.body or b"")))["model"] == "llm"
        await exchange.answer(json.dumps(GOOD).encode())

    backend.handler = answer
    async with RunningGate(tmp_path, backend.port, keys={"token": KEY}) as gate:
        good = await prober.ask("127.0.0.1", gate.port, CHAT, KEY)
        assert (good.wrong, good.ok) == ("", True)
        assert good.seconds > 0
        for key in (OTHER_KEY, None):
            assert (
                "refused the order's own key" in (await prober.ask("127.0.0.1", gate.port, CHAT, key)).wrong
            )
        await backend.stop()
        told = (await prober.ask("127.0.0.1", gate.port, CHAT, KEY)).wrong
        assert "status 503: The model does not answer" in told


async def test_a_gate_without_room_for_a_question_says_nothing_of_its_runtime(
    backend: Backend, prober: Prober, tmp_path: Path
) -> None:
    async with RunningGate(tmp_path, backend.port, "--requests", "1", keys={"token": KEY}) as gate:
        waiting = asyncio.create_task(prober.ask("127.0.0.1", gate.port, CHAT, KEY))
        exchange = await backend.next()
        assert (await prober.ask("127.0.0.1", gate.port, CHAT, KEY)).busy
        await exchange.answer(json.dumps(GOOD).encode())
        assert not (await waiting).busy


async def test_nobody_there_is_told_as_such(prober: Prober) -> None:
    told = (await prober.ask("127.0.0.1", free_port(), CHAT, KEY)).wrong
    assert told.startswith("POST /v1/chat/completions failed: Cannot connect")


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([_answer(GOOD)], ""),
        ([_answer({})], "holds no choice"),
        (
            [_answer({"error": {"message": "CUDA error"}}, "500 Internal Server Error")],
            "status 500: CUDA error",
        ),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"], "failed"),
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], "failed"),
        ([b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"], "status 302"),
        ([b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 100_000 + b"\r\n\r\n"], "failed"),
        ([b"HTTP/1.1 200 OK\r\n\r\n", b"x" * (ANSWER_LIMIT + 1)], f"more than {ANSWER_LIMIT} bytes"),
    ],
)
async def test_what_is_no_answer_does_not_count(
    backend: Backend, prober: Prober, pieces: list[bytes], words: str
) -> None:
    told = await _asked(prober, backend, *pieces)
    assert words in told
    assert bool(told) == bool(words)
    assert KEY not in told


async def test_an_answer_that_never_ends_is_given_up(backend: Backend) -> None:
    async with Prober(answer_seconds=0.5) as prober:
        asking = asyncio.create_task(prober.ask("127.0.0.1", backend.port, CHAT, KEY))
        exchange = await backend.next()
        await exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not asking.done():
            try:
                await exchange.send(b"1\r\n \r\n")
            except OSError:
                break
            await asyncio.wait([asking], timeout=0.05)
        assert (await asking).wrong == "POST /v1/chat/completions was not answered within 0.5 s."


async def test_orders_that_hang_do_not_hold_up_the_others(backend: Backend) -> None:
    """More of them than are asked at once: their turns end, and the one that answers gets its own."""

    async def answer(exchange: Exchange) -> None:
        await exchange.answer(json.dumps(GOOD).encode())

    async with Backend() as silent, Prober(answer_seconds=0.5) as prober:
        backend.handler = answer
        hanging = [asyncio.create_task(prober.ask("127.0.0.1", silent.port, CHAT, KEY)) for _ in range(40)]
        assert (await prober.ask("127.0.0.1", backend.port, CHAT, KEY)).ok
        assert not any(outcome.ok for outcome in await asyncio.gather(*hanging))
