"""What the gate lets through, and how it says no: the real nginx, raw bytes on both sides."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.kit.inferencegate import KEY, OTHER_KEY, RunningGate
from tests.kit.rawhttp import Answer, Backend, Exchange, Wire, ask, request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

CHAT, MODELS = "/v1/chat/completions", "/v1/models"
BEARER = f"Authorization: Bearer {KEY}"

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _echo(exchange: Exchange) -> None:
    """Answer with the head that has come through."""
    await exchange.body()
    await exchange.answer(json.dumps({"head": exchange.head}).encode())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backend() -> AsyncIterator[Backend]:
    async with Backend(_echo) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGate]:
    folder = tmp_path_factory.mktemp("gate")
    limits = ("--body-limit", "1000", "--header-seconds", "1", "--body-seconds", "1")
    async with RunningGate(folder, backend.port, *limits, keys={"token": KEY}) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def open_gate(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGate]:
    async with RunningGate(tmp_path_factory.mktemp("open"), backend.port) as running:
        yield running


def _code(answer: Answer) -> str:
    """Return the code of an error as clients of the API read it."""
    assert answer.headers["content-type"] == "application/json"
    error = json.loads(answer.body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return str(error["code"])


@pytest.mark.parametrize(
    "header",
    [
        BEARER,
        f"authorization: bearer {KEY}",
        f"AUTHORIZATION: BEARER  {KEY} ",
    ],
)
async def test_the_key_opens(gate: RunningGate, header: str) -> None:
    answer = await ask(gate.port, "POST", CHAT, header, body=b"{}")
    assert answer.status == 200
    assert KEY not in answer.body.decode()


@pytest.mark.parametrize(
    "headers",
    [
        [],
        ["Authorization:"],
        ["Authorization: Bearer"],
        ["Authorization: Bearer "],
        [f"Authorization: {KEY}"],
        [f"Authorization: Basic {KEY}"],
        [f"Authorization: Bearer{KEY}"],
        [f"Authorization: Bearer {KEY}x"],
        [f"Authorization: Bearer {KEY[:-1]}"],
        [f"Authorization: Bearer {KEY.upper()}"],
        [f"Authorization: Bearer {KEY} {KEY}"],
        [f"Authorization: Bearer {KEY}, Bearer {KEY}"],
        [f"Authorization: Bearer {OTHER_KEY}"],
        [f"Authorization: Bearer ./{KEY}"],
        [f"Authorization: Bearer ../keys/{KEY}"],
        ["Authorization: Bearer ."],
        ["Authorization: Bearer .."],
        ["Authorization: Bearer ../nginx.conf"],
        ["Authorization: Bearer " + "a" * 3000],
        ["Authorization: Bearer $gate_route"],
        [f"X-Api-Key: {KEY}"],
        [f"Proxy-Authorization: Bearer {KEY}"],
    ],
)
async def test_nothing_else_opens(gate: RunningGate, headers: list[str]) -> None:
    answer = await ask(gate.port, "POST", CHAT, *headers, body=b"{}")
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert _code(answer) == "invalid_api_key"


async def test_a_key_in_the_address_opens_nothing(gate: RunningGate) -> None:
    assert (await ask(gate.port, "GET", f"{MODELS}?key={KEY}&token={KEY}&api_key={KEY}")).status == 401


async def test_two_keys_at_once_are_no_request(gate: RunningGate) -> None:
    answer = await ask(gate.port, "GET", MODELS, f"Authorization: Bearer {OTHER_KEY}", BEARER)
    assert (answer.status, _code(answer)) == (400, "bad_request")


async def test_a_wrong_key_is_told_before_the_body_is_sent(gate: RunningGate) -> None:
    async with Wire(gate.port) as wire:
        await wire.send(request("POST", CHAT, "Content-Length: 1000"))
        assert (await wire.answer()).status == 401


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", CHAT, 200),
        ("POST", "/v1/completions", 200),
        ("GET", MODELS, 200),
        ("GET", "/v1/models?page=2", 200),
        ("GET", CHAT, 405),
        ("PUT", CHAT, 405),
        ("DELETE", MODELS, 405),
        ("POST", MODELS, 405),
        ("OPTIONS", CHAT, 405),
        ("HEAD", MODELS, 405),
        ("POST", "/v1/embeddings", 404),
        ("POST", "/rerank", 404),
        ("GET", "/metrics", 404),
        ("GET", "/slots", 404),
        ("POST", "/v1/load_lora_adapter", 404),
        ("GET", "/", 404),
        ("GET", "/v1", 404),
        ("GET", f"{MODELS}/", 404),
        ("GET", f"{MODELS}/llama", 404),
    ],
)
async def test_only_the_paths_of_the_api_and_their_methods(
    gate: RunningGate, method: str, path: str, status: int
) -> None:
    async with Wire(gate.port) as wire:
        await wire.send(request(method, path, BEARER, body=b"{}" if method in {"POST", "PUT"} else b""))
        answer = await (wire.head() if method == "HEAD" else wire.answer())
    assert answer.status == status
    if status == 405:
        assert answer.headers["allow"] == ("GET" if MODELS in path else "POST")
    if status != 200 and method != "HEAD":
        assert _code(answer) == {404: "unknown_url", 405: "method_not_allowed"}[status]


@pytest.mark.parametrize(
    "target",
    [
        "//v1/models",
        "/v1//models",
        "/./v1/models",
        "/v1/./models",
        "/metrics/../v1/models",
        "/v1/models/../models",
        "/v1/models/.",
        "/v1/models/..;/metrics",
        "/v1/models;x=1",
        "/v1%2fmodels",
        "/v1%2Fmodels",
        "/%76%31/models",
        "/v1/model%73",
        "/v1/models%00",
        "/v1/models%20",
        "/v1/models%3f",
        "/v1/models#x",
        "/V1/MODELS",
        "/v1/Models",
        "/v1/models\\",
        "\\v1\\models",
        "/v1/models%2e%2e%2fmetrics",
        "/gate/refusal/401",
        "/gate/keys/" + KEY,
    ],
)
async def test_an_address_is_taken_as_it_is_written(gate: RunningGate, target: str) -> None:
    answer = await ask(gate.port, "GET", target, BEARER)
    assert answer.status in {400, 404}
    assert _code(answer) in {"bad_request", "unknown_url"}


async def test_the_runtime_sees_the_path_and_no_key(gate: RunningGate) -> None:
    answer = await ask(
        gate.port, "GET", f"http://other.example{MODELS}?a=%2e%2e", BEARER, "X-Request-Id: mine-1"
    )
    head = json.loads(answer.body)["head"]
    assert head.startswith(f"GET {MODELS}?a=%2e%2e HTTP/1.1\r\n")
    assert "authorization" not in head.lower()
    assert "X-Request-Id: mine-1" in head
    assert answer.headers["x-request-id"] == "mine-1"


@pytest.mark.parametrize("given", ["", "a b", 'a"b', "x" * 129, "{}"])
async def test_a_request_without_a_usable_id_gets_one(gate: RunningGate, given: str) -> None:
    answer = await ask(gate.port, "GET", MODELS, BEARER, f"X-Request-Id: {given}")
    made = answer.headers["x-request-id"]
    assert (len(made), made == given) == (32, False)
    assert f"X-Request-Id: {made}" in json.loads(answer.body)["head"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (["Content-Length: 5", "Transfer-Encoding: chunked"], 400),
        (["Transfer-Encoding: chunked", "Content-Length: 5"], 400),
        (["Content-Length: 5", "Content-Length: 6"], 400),
        (["Content-Length: 5", "Content-Length: 5"], 400),
        (["Content-Length: +5"], 400),
        (["Content-Length: 5, 5"], 400),
        (["Content-Length: -1"], 400),
        (["Transfer-Encoding: xchunked"], 501),
        (["Transfer-Encoding: chunked, identity"], 501),
        (["Transfer-Encoding: identity, chunked"], 501),
        (["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], 400),
    ],
)
async def test_a_body_of_unclear_length_is_refused_and_ends_the_connection(
    gate: RunningGate, headers: list[str], status: int
) -> None:
    """What one side takes for the end of a body and the other does not would be somebody else's request."""
    async with Wire(gate.port) as wire:
        smuggled = request("GET", MODELS, BEARER)
        await wire.send(request("POST", CHAT, BEARER, *headers) + b"0\r\n\r\n" + smuggled)
        answer = await wire.answer()
        assert (answer.status, await wire.end()) == (status, b"")


async def test_a_second_request_is_never_part_of_a_body(gate: RunningGate) -> None:
    async with Wire(gate.port) as wire:
        await wire.send(request("POST", CHAT, BEARER, "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n\r\n")
        await wire.send(request("GET", "/metrics", BEARER))
        first, second = await wire.answer(), await wire.answer()
    assert (first.status, second.status) == (200, 404)


async def test_a_body_over_the_bound_is_refused(gate: RunningGate) -> None:
    told = await ask(gate.port, "POST", CHAT, BEARER, body=b"x" * 1001)
    assert (told.status, _code(told)) == (413, "request_too_large")
    async with Wire(gate.port) as wire:
        await wire.send(request("POST", CHAT, BEARER, "Transfer-Encoding: chunked"))
        for _ in range(3):
            await wire.send(b"200\r\n" + b"x" * 0x200 + b"\r\n")
        assert (await wire.answer()).status == 413
    assert (await ask(gate.port, "POST", CHAT, BEARER, body=b"x" * 1000)).status == 200


async def test_headers_over_the_bound_are_refused(gate: RunningGate) -> None:
    answer = await ask(gate.port, "GET", MODELS, BEARER, "X-Much: " + "x" * 20000)
    assert (answer.status, _code(answer)) == (431, "headers_too_large")
    answer = await ask(gate.port, "GET", f"{MODELS}?{'x' * 20000}", BEARER)
    assert (answer.status, _code(answer)) == (414, "uri_too_long")


async def test_a_client_that_never_ends_its_headers_is_let_go(gate: RunningGate) -> None:
    async with Wire(gate.port) as slow:
        await slow.send(f"GET {MODELS} HTTP/1.1\r\nHost: gate\r\nX-Slow: ")
        closed = asyncio.create_task(slow.end())
        while not closed.done():  # a byte at a time, for as long as anybody listens
            try:
                await slow.send("x")
            except OSError:
                break
            await asyncio.wait([closed], timeout=0.1)
        assert await closed == b""


async def test_a_client_that_never_ends_its_body_is_let_go_and_the_runtime_too(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    limits = ("--body-seconds", "1")
    async with (
        Backend() as backend,
        RunningGate(tmp_path_factory.mktemp("slow"), backend.port, *limits) as gate,
        Wire(gate.port) as wire,
    ):
        await wire.send(request("POST", CHAT, "Content-Length: 100") + b"{")
        exchange = await backend.next()
        await exchange.gone()
        await wire.end()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_the_kubelet_needs_no_key(gate: RunningGate, method: str) -> None:
    for path in ("/health", "/gate/alive"):
        async with Wire(gate.port) as wire:
            await wire.send(request(method, path))
            assert (await wire.head()).status == 200
    assert (await ask(gate.port, "POST", "/health", body=b"{}")).status == 405


async def test_metrics_have_a_port_of_their_own(gate: RunningGate) -> None:
    answer = await ask(gate.metrics_port, "GET", "/metrics")
    assert json.loads(answer.body)["head"].startswith("GET /metrics HTTP/1.1")
    assert (await ask(gate.metrics_port, "GET", MODELS, BEARER)).status == 404
    assert (await ask(gate.metrics_port, "GET", "/health")).status == 404


async def test_without_keys_whoever_reaches_the_gate_may_ask(open_gate: RunningGate) -> None:
    assert (await ask(open_gate.port, "POST", CHAT, body=b"{}")).status == 200
    assert (await ask(open_gate.port, "GET", "/metrics")).status == 404
    answer = await ask(open_gate.port, "GET", MODELS, BEARER)
    assert KEY not in answer.body.decode()


async def test_both_families_of_addresses_are_served(backend: Backend, tmp_path: Path) -> None:
    async with RunningGate(tmp_path, backend.port, host=None) as gate:
        families = ["127.0.0.1", "::1"] if socket.has_dualstack_ipv6() else ["127.0.0.1"]
        for address in families:
            _, writer = await asyncio.open_connection(address, gate.port)
            writer.close()


async def test_no_key_is_ever_logged(gate: RunningGate) -> None:
    for headers in ([BEARER], [f"Authorization: Bearer {OTHER_KEY}"]):
        await ask(gate.port, "GET", f"{MODELS}?key={KEY}", *headers)
        await ask(gate.port, "GET", f"/{KEY}/{OTHER_KEY}", *headers)
        await ask(gate.port, "GET", f"/%2e%2e/{KEY}", *headers)
    said = gate.said()
    lines = [json.loads(line) for line in said.splitlines()]
    assert {"request"} <= {line["msg"] for line in lines}
    assert {MODELS, ""} <= {line.get("route") for line in lines}
    assert KEY not in said
    assert OTHER_KEY not in said
