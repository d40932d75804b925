"""Bytes pass the gate as they come, both ways; told by the order of what happens, never by a clock."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.kit.eventually import eventually
from tests.kit.inferencegate import KEY, RunningGate
from tests.kit.rawhttp import Backend, Exchange, Wire, ask, request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

CHAT = "/v1/chat/completions"
BEARER = f"Authorization: Bearer {KEY}"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
DRAIN = ("--drain-path", "/drain/0123", "--settle-seconds", "0")


@pytest_asyncio.fixture
async def backend() -> AsyncIterator[Backend]:
    async with Backend() as running:
        yield running


@pytest_asyncio.fixture
async def gate(backend: Backend, tmp_path: Path) -> AsyncIterator[RunningGate]:
    async with RunningGate(tmp_path, backend.port, *DRAIN, keys={"token": KEY}) as running:
        yield running


def _chunk(text: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(text), text)


async def _ask(wire: Wire, backend: Backend) -> Exchange:
    """Send a request and return it as it arrives."""
    await wire.send(request("POST", CHAT, BEARER, body=b'{"stream":true}'))
    exchange = await backend.next()
    await exchange.body()
    return exchange


async def test_every_piece_of_an_answer_arrives_before_the_next_is_made(
    gate: RunningGate, backend: Backend
) -> None:
    async with Wire(gate.port) as wire:
        exchange = await _ask(wire, backend)
        await exchange.send(EVENTS)
        head = await wire.head()
        assert (head.status, head.headers["content-type"]) == (200, "text/event-stream")
        for number in range(20):
            event = b"data: %d\n\n" % number
            await exchange.send(_chunk(event))
            assert (await wire.until(event + b"\r\n")).endswith(event + b"\r\n")
        await exchange.send(_chunk(b""))
        assert await wire.until(b"0\r\n\r\n")


async def test_every_piece_of_a_body_arrives_before_the_next_is_sent(
    gate: RunningGate, backend: Backend
) -> None:
    async with Wire(gate.port) as wire:
        await wire.send(request("POST", CHAT, BEARER, "Content-Length: 40"))
        await wire.send(b"first-----")
        exchange = await backend.next()
        assert await exchange.reader.readexactly(10) == b"first-----"
        for number in range(3):
            piece = b"piece---%02d" % number
            await wire.send(piece)
            assert await exchange.reader.readexactly(10) == piece
        await exchange.answer()
        assert (await wire.answer()).status == 200


async def test_a_body_of_100_mb_passes_and_is_not_kept_anywhere(
    gate: RunningGate, backend: Backend, tmp_path: Path
) -> None:
    size, piece = 100 << 20, bytes(1 << 20)
    async with Wire(gate.port) as wire:
        await wire.send(request("POST", CHAT, BEARER, f"Content-Length: {size}") + piece)
        exchange = await backend.next()
        read = asyncio.create_task(exchange.body())
        for _ in range(size // len(piece) - 1):
            await wire.send(piece)
        assert await read == size
        kept = sum(path.stat().st_size for path in (tmp_path / "run").rglob("*") if path.is_file())
        assert kept < 64 << 10
        await exchange.answer()
        assert (await wire.answer()).status == 200


async def test_a_runtime_that_dies_in_an_answer_does_not_look_like_its_end(
    gate: RunningGate, backend: Backend
) -> None:
    async with Wire(gate.port) as wire:
        exchange = await _ask(wire, backend)
        await exchange.send(EVENTS, _chunk(b"data: 1\n\n"))
        await wire.until(b"data: 1\n\n\r\n")
        exchange.break_off()
        assert b"0\r\n\r\n" not in await wire.end()


async def test_a_runtime_that_dies_before_its_answer_is_a_503(gate: RunningGate, backend: Backend) -> None:
    async with Wire(gate.port) as wire:
        exchange = await _ask(wire, backend)
        exchange.break_off()
        answer = await wire.answer()
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    assert json.loads(answer.body)["error"]["code"] == "model_not_available"


async def test_a_runtime_that_is_not_there_yet_is_a_503_until_it_is(
    gate: RunningGate, backend: Backend
) -> None:
    await backend.stop()
    assert (await ask(gate.port, "GET", "/v1/models", BEARER)).status == 503
    assert (await ask(gate.port, "GET", "/health")).status == 503
    assert (await ask(gate.port, "GET", "/gate/alive")).status == 200
    await backend.start()
    answer = asyncio.create_task(ask(gate.port, "GET", "/v1/models", BEARER))
    await (await backend.next()).answer()
    assert (await answer).status == 200


async def test_what_the_runtime_says_itself_is_passed_on(gate: RunningGate, backend: Backend) -> None:
    for status in ("400 Bad Request", "401 Unauthorized", "404 Not Found", "503 Service Unavailable"):
        async with Wire(gate.port) as wire:
            exchange = await _ask(wire, backend)
            await exchange.answer(b'{"error":"mine"}', status)
            answer = await wire.answer()
        assert (answer.status, answer.body) == (int(status[:3]), b'{"error":"mine"}')


async def test_a_runtime_cannot_send_clients_elsewhere_inside_the_gate(
    gate: RunningGate, backend: Backend
) -> None:
    async with Wire(gate.port) as wire:
        exchange = await _ask(wire, backend)
        redirect = b"X-Accel-Redirect: /gate/alive\r\n"
        await exchange.send(b"HTTP/1.1 200 OK\r\n", redirect, b"Content-Length: 2\r\n\r\n{}")
        assert (await wire.answer()).body == b"{}"


async def test_the_runtime_learns_that_a_client_has_gone(gate: RunningGate, backend: Backend) -> None:
    async with Wire(gate.port) as wire:
        exchange = await _ask(wire, backend)
        await exchange.send(EVENTS, _chunk(b"data: 1\n\n"))
        await wire.until(b"data: 1\n\n\r\n")
    await exchange.gone()


@pytest.mark.parametrize("how", ["signal", "hook"])
async def test_answers_on_their_way_are_finished_before_the_gate_ends(
    gate: RunningGate, backend: Backend, how: str
) -> None:
    async with AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(Wire(gate.port)) for _ in range(3)]
        exchanges = [await _ask(wire, backend) for wire in wires]
        for exchange, wire in zip(exchanges, wires, strict=True):
            await exchange.send(EVENTS, _chunk(b"data: 1\n\n"))
            await wire.until(b"data: 1\n\n\r\n")
        hook = asyncio.create_task(_end(gate, how))
        await _refused(gate.port)
        for exchange, wire in zip(exchanges, wires, strict=True):
            assert not hook.done()
            assert gate.process.returncode is None
            await exchange.send(_chunk(b"data: 2\n\n"), _chunk(b""))
            assert b"data: 2" in await wire.until(b"0\r\n\r\n")
            exchange.writer.close()
        await hook
        assert gate.process.returncode is None or how == "signal"
        if how == "hook":
            gate.process.send_signal(signal.SIGTERM)
        assert await gate.process.wait() == 0


async def test_a_gate_that_is_not_ended_after_a_drain_opens_again(backend: Backend, tmp_path: Path) -> None:
    async with RunningGate(tmp_path, backend.port, *DRAIN, "--resume-seconds", "0") as gate:
        for _ in range(2):
            await _end(gate, "hook")

            async def alive() -> bool:
                try:
                    return (await ask(gate.port, "GET", "/gate/alive")).status == 200
                except (OSError, asyncio.IncompleteReadError):
                    return False

            await eventually(alive)


async def _end(gate: RunningGate, how: str) -> None:
    if how == "signal":
        gate.process.send_signal(signal.SIGTERM)
        await gate.process.wait()
    else:
        async with Wire(gate.drain_port) as wire:
            await wire.send(request("GET", "/drain/0123"))
            assert (await wire.answer()).status == 200


async def _refused(port: int) -> None:
    """Wait until nobody listens any more."""
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                return
            writer.close()
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "asked", ["GET /drain HTTP/1.1", "POST /drain/0123 HTTP/1.1", "GET /drain/0124 HTTP/1.1"]
)
async def test_who_does_not_know_the_path_cannot_end_the_gate(gate: RunningGate, asked: str) -> None:
    async with Wire(gate.drain_port) as wire:
        await wire.send(f"{asked}\r\n\r\n")
        assert (await wire.answer()).status == 404
    async with Wire(gate.drain_port) as wire:
        await wire.send("x" * 100_000)
        assert await wire.end() == b""
    assert (await ask(gate.port, "GET", "/gate/alive")).status == 200


async def test_a_gate_whose_nginx_dies_ends_with_an_error(gate: RunningGate, tmp_path: Path) -> None:
    gate_pid = int((tmp_path / "run" / "nginx.pid").read_text())
    os.kill(gate_pid, signal.SIGKILL)
    assert await gate.process.wait() != 0
    await _refused(gate.port)
    assert "nginx ended by itself" in gate.said()
