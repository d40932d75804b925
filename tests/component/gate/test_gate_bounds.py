"""How much of a gate one client can take: the real nginx, raw bytes, a runtime that answers when told."""

from __future__ import annotations

import asyncio
import json
import resource
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from images.gate.config import CONNECTIONS
from tests.kit.eventually import eventually
from tests.kit.inferencegate import KEY, RunningGate
from tests.kit.rawhttp import Answer, Backend, Exchange, Wire, ask, request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

CHAT, MODELS = "/v1/chat/completions", "/v1/models"
BEARER = f"Authorization: Bearer {KEY}"
HELD = "X-Held: yes"


class Runtime:
    """Answers at once, but for requests that it is asked to hold until ``release``."""

    def __init__(self) -> None:
        self.held: list[Exchange] = []

    async def meet(self, exchange: Exchange) -> None:
        if "x-held" in exchange.headers:
            self.held.append(exchange)
        else:
            await exchange.answer()

    async def holds(self, number: int) -> None:
        async def look() -> bool:
            return len(self.held) == number

        await eventually(look)

    async def release(self) -> None:
        await self.held.pop().answer()


@asynccontextmanager
async def running(folder: Path, *options: str) -> AsyncIterator[tuple[RunningGate, Runtime]]:
    runtime = Runtime()
    async with (
        Backend(runtime.meet) as backend,
        RunningGate(folder, backend.port, *options, keys={"token": KEY}) as gate,
    ):
        yield gate, runtime


async def _hold(stack: AsyncExitStack, gate: RunningGate, *headers: str) -> Wire:
    wire = await stack.enter_async_context(Wire(gate.port))
    await wire.send(request("POST", CHAT, BEARER, HELD, *headers, body=b"{}"))
    return wire


def _refused(answer: Answer) -> None:
    assert (answer.status, answer.headers["retry-after"]) == (429, "1")
    error = json.loads(answer.body)["error"]
    assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")


async def test_one_client_has_so_many_requests_at_a_time_and_no_more(tmp_path: Path) -> None:
    async with running(tmp_path, "--client-requests", "2") as (gate, runtime), AsyncExitStack() as stack:
        wires = [await _hold(stack, gate) for _ in range(2)]
        await runtime.holds(2)
        _refused(await ask(gate.port, "POST", CHAT, BEARER, body=b"{}"))
        _refused(await ask(gate.port, "GET", MODELS, BEARER, "X-Forwarded-For: 192.0.2.7"))
        # Whoever has no key learns that first, and the kubelet is always answered.
        assert (await ask(gate.port, "GET", MODELS)).status == 401
        assert (await ask(gate.port, "GET", "/health")).status == 200
        await runtime.release()
        assert (await wires[1].answer()).status == 200

        async def served() -> bool:
            return (await ask(gate.port, "GET", MODELS, BEARER)).status == 200

        await eventually(served)


async def test_behind_a_proxy_clients_are_those_that_it_names(tmp_path: Path) -> None:
    options = ("--client-requests", "1", "--requests", "3", "--proxied")
    async with running(tmp_path, *options) as (gate, runtime), AsyncExitStack() as stack:
        await _hold(stack, gate, "X-Forwarded-For: 192.0.2.1")
        await _hold(stack, gate, "X-Forwarded-For: 192.0.2.1, 2001:db8::2")
        await runtime.holds(2)
        for named in ("192.0.2.1", "198.51.100.9, 192.0.2.1", "2001:db8::2"):
            _refused(await ask(gate.port, "GET", MODELS, BEARER, f"X-Forwarded-For: {named}"))
        for named in ("192.0.2.3", "192.0.2.1, 192.0.2.3", "unknown"):
            answer = await ask(gate.port, "GET", MODELS, BEARER, f"X-Forwarded-For: {named}")
            assert answer.status == 200


async def test_all_clients_together_leave_the_runtime_room_for_probes(tmp_path: Path) -> None:
    options = ("--client-requests", "1", "--requests", "2", "--proxied")
    async with running(tmp_path, *options) as (gate, runtime), AsyncExitStack() as stack:
        for number in range(2):
            await _hold(stack, gate, f"X-Forwarded-For: 192.0.2.{number}")
        await runtime.holds(2)
        # Another name each time opens no more than there is.
        _refused(await ask(gate.port, "GET", MODELS, BEARER, "X-Forwarded-For: 192.0.2.99"))
        assert (await ask(gate.port, "GET", "/health")).status == 200
        assert (await ask(gate.metrics_port, "GET", "/metrics")).status == 200


async def test_bodies_that_do_not_end_take_the_places_of_their_client_only(tmp_path: Path) -> None:
    async with running(tmp_path, "--client-requests", "2", "--proxied") as (gate, runtime):
        async with AsyncExitStack() as stack:
            slow, other = "X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 192.0.2.2"
            for _ in range(2):
                wire = await stack.enter_async_context(Wire(gate.port))
                await wire.send(request("POST", CHAT, BEARER, HELD, slow, "Content-Length: 9000000") + b"{")
            await runtime.holds(2)
            _refused(await ask(gate.port, "POST", CHAT, BEARER, slow, body=b"{}"))
            assert (await ask(gate.port, "POST", CHAT, BEARER, other, body=b"{}")).status == 200
        # When the client goes, its places are free, and the runtime learns it.
        for exchange in runtime.held:
            await exchange.gone()


@pytest.fixture
def many_files() -> None:
    """Have this process open more than there are connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * CONNECTIONS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@pytest.mark.usefixtures("many_files")
async def test_connections_that_say_nothing_give_way_to_one_that_asks(tmp_path: Path) -> None:
    async with running(tmp_path) as (gate, _):
        idle = [await asyncio.open_connection("127.0.0.1", gate.port) for _ in range(CONNECTIONS + 100)]
        try:
            assert (await ask(gate.port, "GET", MODELS, BEARER)).status == 200
        finally:
            for _, writer in idle:
                writer.transport.abort()


@pytest.mark.usefixtures("many_files")
async def test_headers_that_never_end_cost_bounded_memory_and_let_go(tmp_path: Path) -> None:
    async with running(tmp_path, "--header-seconds", "3") as (gate, _):
        before = _resident(gate)
        open_headers = request("GET", MODELS, *(f"X-{n}: {'x' * 8000}" for n in range(3)))[:-2]
        wires = [await asyncio.open_connection("127.0.0.1", gate.port) for _ in range(500)]
        try:
            for _, writer in wires:
                writer.write(open_headers)
                await writer.drain()
            await ask(gate.port, "GET", "/gate/alive")
            assert _resident(gate) - before < 500 * (48 << 10)
            for reader, _ in wires:
                assert await _ended(reader)
        finally:
            for _, writer in wires:
                writer.transport.abort()


async def _ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


def _resident(gate: RunningGate) -> int:
    """Return the memory of nginx's worker, in bytes."""
    master = (gate.secret.parent / "run" / "nginx.pid").read_text().strip()
    with open(f"/proc/{master}/task/{master}/children") as file:  # noqa: PTH123 - no file of a file system
        worker = file.read().split()[0]
    with open(f"/proc/{worker}/statm") as file:  # noqa: PTH123 - the same
        return int(file.read().split()[1]) * resource.getpagesize()
