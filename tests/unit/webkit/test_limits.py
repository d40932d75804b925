"""Bounds on bodies, refusals, problem answers, health."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import looptime  # noqa: F401 - virtual time for the watchdogs
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from tests.kit import asgi
from webkit import audit, health, limits
from webkit.problems import SAFE_HEADERS, Problem, handlers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response
    from starlette.types import Message, Receive

TEAPOT = Problem(418, "Teapot", "it is a teapot", "brew tea", headers={"retry-after": "3"}, spout="left")


def receiving(pieces: Sequence[bytes], *, more: bool = False) -> tuple[Receive, list[int]]:
    """Return a receive callable that never blocks until the pieces are over, and what it gave out."""
    left, given = list(pieces), []

    async def receive() -> Message:
        if not left:
            await asyncio.Event().wait()
        piece = left.pop(0)
        given.append(len(piece))
        return {"type": "http.request", "body": piece, "more_body": bool(left) or more}

    return receive, given


def request(receive: Receive, **headers: str) -> Request:
    return Request(
        {**asgi.scope_of("POST", "/", {k.replace("_", "-"): v for k, v in headers.items()})}, receive
    )


async def test_a_body_within_its_limit_is_returned_whole() -> None:
    receive, _ = receiving([b"abc", b"def"])
    assert await limits.read_body(request(receive), 6) == b"abcdef"


async def test_a_body_that_is_announced_too_large_is_not_read() -> None:
    receive, given = receiving([b"x" * 100])
    with pytest.raises(Problem) as caught:
        await limits.read_body(request(receive, content_length="100"), 10)
    assert (caught.value.status, given) == (413, [])


async def test_a_body_that_grows_too_large_is_not_read_to_its_end() -> None:
    receive, given = receiving([b"x" * 8] * 100)
    with pytest.raises(Problem) as caught:
        await limits.read_body(request(receive), 10)
    assert (caught.value.status, len(given)) == (413, 2)


@pytest.mark.looptime
async def test_a_body_that_does_not_come_is_waited_for_no_longer_than_said() -> None:
    receive, _ = receiving([b"x"], more=True)
    with pytest.raises(Problem) as caught:
        await limits.read_body(request(receive), 10, deadline=7)
    assert (caught.value.status, asyncio.get_running_loop().time()) == (408, 7)


@pytest.mark.looptime
async def test_the_watchdog_counts_from_the_last_message() -> None:
    receive, _ = receiving([b"x", b"y"], more=True)
    watched = limits.watched(receive, 5)
    await watched()
    await asyncio.sleep(4)
    await watched()
    with pytest.raises(limits.Stalled):
        await watched()
    assert asyncio.get_running_loop().time() == 9


async def refused(
    headers: dict[str, str], pieces: Sequence[bytes], **options: Any
) -> tuple[list[Message], list[int]]:
    receive, given = receiving(pieces, more=True)
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await limits.refuse(asgi.scope_of("PUT", "/", headers), receive, send, TEAPOT, **options)
    return sent, given


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("headers", "read"),
    [
        ({"content-length": "300000000"}, limits.DRAIN_BYTES),
        ({"transfer-encoding": "chunked"}, limits.DRAIN_BYTES),
        ({"content-length": "300000000", "expect": "100-continue"}, 0),
        ({"content-length": "0"}, 0),
        ({}, 0),
    ],
)
async def test_a_refusal_comes_first_and_reads_little(headers: dict[str, str], read: int) -> None:
    sent, given = await refused(headers, [b"x" * (64 << 10)] * 64)
    assert (sent[0]["status"], (b"connection", b"close") in sent[0]["headers"]) == (418, True)
    assert sum(given) == read


@pytest.mark.looptime
async def test_a_body_that_was_begun_is_drained_even_when_it_was_asked_for() -> None:
    _, given = await refused(
        {"content-length": "9000000", "expect": "100-continue"}, [b"x" * (64 << 10)] * 64, begun=True
    )
    assert sum(given) == limits.DRAIN_BYTES


async def test_every_answer_of_an_application_is_a_problem_with_safe_headers() -> None:
    def teapot(_: Request) -> Response:
        raise TEAPOT

    app = Starlette(routes=[Route("/tea", teapot)], exception_handlers=handlers())
    tea, nowhere, wrong = (
        await asgi.request(app, "GET", "/tea"),
        await asgi.request(app, "GET", "/elsewhere"),
        await asgi.request(app, "POST", "/tea"),
    )
    for answer in (tea, nowhere, wrong):
        assert answer is not None
        assert {name: answer.headers[name] for name in SAFE_HEADERS} == SAFE_HEADERS
    assert json.loads(tea.body) == {
        "reason": "Teapot",
        "message": "it is a teapot",
        "nextStep": "brew tea",
        "spout": "left",
    }
    assert (tea.headers["retry-after"], nowhere.status, wrong.status) == ("3", 404, 405)


async def test_health_tells_what_is_wrong_by_name() -> None:
    state: dict[str, str | None] = {"watch": None}
    app = Starlette(routes=health.routes(live={"watch": lambda: state["watch"], "loop": lambda: None}))
    good = await asgi.request(app, "GET", "/livez")
    state["watch"] = "silent for 700 s"
    bad = await asgi.request(app, "GET", "/livez")
    metrics = await asgi.request(app, "GET", "/metrics")

    assert (good.status, good.body) == (200, b"watch: ok\nloop: ok\n")
    assert (bad.status, bad.body) == (503, b"watch: silent for 700 s\nloop: ok\n")
    assert b"process_resident_memory_bytes" in metrics.body


def test_an_audit_line_tells_who_and_from_where(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(audit._LOG, "info", lambda event, **fields: seen.update(fields, event=event))
    actor = audit.Actor("jane", "u1", ("a", "b"))
    audit.record("pull", actor, {"client": ("10.1.2.3", 4)}, target="m", result="allowed", digest="d")
    assert seen == {
        "event": "pull",
        "audit": True,
        "user": "jane",
        "uid": "u1",
        "groups": ["a", "b"],
        "client_ip": "10.1.2.3",
        "object": "m",
        "result": "allowed",
        "digest": "d",
    }
