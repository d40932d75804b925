"""Keys change while requests are on their way, and nobody notices but those who lack the new one."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.kit.eventually import eventually
from tests.kit.inferencegate import KEY, OTHER_KEY, RunningGate
from tests.kit.rawhttp import Backend, Exchange, Wire, ask, request

if TYPE_CHECKING:
    from pathlib import Path

CHAT = "/v1/chat/completions"
EVENTS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def _answer(exchange: Exchange) -> None:
    await exchange.body()
    await exchange.answer()


async def _opens(gate: RunningGate, key: str) -> bool:
    return (await ask(gate.port, "GET", "/v1/models", f"Authorization: Bearer {key}")).status == 200


async def _turns(gate: RunningGate, key: str, *, opens: bool) -> None:
    async def look() -> bool:
        return await _opens(gate, key) == opens

    await eventually(look)


class Load:
    """Clients that keep their connections and ask without a pause, each with the key it was given last."""

    def __init__(self, port: int) -> None:
        self.key = KEY
        self.seen: Counter[int] = Counter()
        self._url = f"http://127.0.0.1:{port}{CHAT}"
        self._over = False

    async def run(self, clients: int) -> None:
        async with aiohttp.ClientSession() as session:
            await asyncio.gather(*(self._client(session) for _ in range(clients)))

    async def more(self, requests: int) -> None:
        """Wait until so many further requests were answered."""
        wanted = self.seen.total() + requests

        async def look() -> bool:
            return self.seen.total() >= wanted

        await eventually(look)

    def stop(self) -> None:
        self._over = True

    async def _client(self, session: aiohttp.ClientSession) -> None:
        while not self._over:
            headers = {"Authorization": f"Bearer {self.key}"}
            async with session.post(self._url, json={}, headers=headers) as answer:
                await answer.read()
                self.seen[answer.status] += 1


async def test_a_key_is_replaced_under_load_without_one_failed_request(tmp_path: Path) -> None:
    async with Backend(_answer) as backend, RunningGate(tmp_path, backend.port, keys={"token": KEY}) as gate:
        load = Load(gate.port)
        running = asyncio.create_task(load.run(8))
        old, new = KEY, OTHER_KEY
        for _ in range(5):
            await load.more(50)
            gate.write_keys(previousToken=old, token=new)
            await _turns(gate, new, opens=True)
            await load.more(50)
            load.key = new
            await load.more(50)
            gate.write_keys(token=new)
            await _turns(gate, old, opens=False)
            old, new = new, old
        load.stop()
        await running
        assert set(load.seen) == {200}


async def test_a_stream_outlives_the_key_it_was_begun_with(tmp_path: Path) -> None:
    streams: asyncio.Queue[Exchange] = asyncio.Queue()

    async def handler(exchange: Exchange) -> None:
        await (streams.put(exchange) if exchange.line.startswith("POST") else exchange.answer())

    async with (
        Backend(handler) as backend,
        RunningGate(tmp_path, backend.port, keys={"token": KEY}) as gate,
        Wire(gate.port) as wire,
    ):
        await wire.send(request("POST", CHAT, f"Authorization: Bearer {KEY}", body=b"{}"))
        exchange = await streams.get()
        await exchange.send(EVENTS, b"1\r\na\r\n")
        await wire.until(b"1\r\na\r\n")
        gate.write_keys(token=OTHER_KEY)
        await _turns(gate, KEY, opens=False)
        await exchange.send(b"1\r\nb\r\n0\r\n\r\n")
        assert await wire.until(b"0\r\n\r\n") == b"1\r\nb\r\n0\r\n\r\n"


async def test_while_the_secret_cannot_be_used_the_keys_that_count_go_on_counting(tmp_path: Path) -> None:
    async with Backend(_answer) as backend, RunningGate(tmp_path, backend.port, keys={"token": KEY}) as gate:
        for broken in ({}, {"token": "short"}, {"token": "../" * 9}, {"token": "x" * 5000}, {"other": KEY}):
            gate.write_keys(**broken)

            async def told() -> bool:
                return "the keys cannot be read" in gate.said()

            await eventually(told)
            assert await _opens(gate, KEY)
        gate.write_keys(token=f"{OTHER_KEY}\n")
        await _turns(gate, OTHER_KEY, opens=True)
        await _turns(gate, KEY, opens=False)
        assert gate.said().count("keys changed") == 2


@pytest.mark.parametrize(
    "value", ["", "short", "with spaces in it, too many", "/etc/passwd-and-more", ".hidden-file-name-x"]
)
async def test_a_gate_without_a_usable_key_lets_nobody_in(tmp_path: Path, value: str) -> None:
    async with (
        Backend(_answer) as backend,
        RunningGate(tmp_path, backend.port, keys={"token": value}) as gate,
    ):
        for header in (f"Authorization: Bearer {value}", "Authorization: Bearer ", ""):
            assert (await ask(gate.port, "GET", "/v1/models", header)).status == 401
        assert "cannot be used as a key" in gate.said()
        assert not value or value not in gate.said()
