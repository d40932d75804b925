"""Bounds on what comes from outside: the size of a body, the time it takes, and how a refused one ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from webkit.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Message, Receive, Scope, Send

#: What a refused client may still send before it notices: some clients lose the answer if nothing is read.
DRAIN_BYTES = 512 << 10
DRAIN_SECONDS = 2.0


async def read_body(request: Request, at_most: int, deadline: float = 30.0) -> bytes:
    """Return the whole body; Problem 413 when it is larger, 408 when it takes longer."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > at_most:
        raise _too_large(at_most)
    body = bytearray()
    try:
        async with asyncio.timeout(deadline):
            async for piece in request.stream():
                body += piece
                if len(body) > at_most:
                    raise _too_large(at_most)
    except TimeoutError:
        raise Problem(
            408,
            "BodyTimeout",
            f"the body did not arrive within {deadline:.0f} s",
            "send it again over a faster connection",
        ) from None
    return bytes(body)


def _too_large(at_most: int) -> Problem:
    return Problem(413, "BodyTooLarge", f"the body is larger than {at_most} bytes", "send a smaller one")


class Stalled(Exception):
    """The client sent nothing for too long."""


def watched(receive: Receive, idle: float) -> Receive:
    """Return ``receive`` with a watchdog: Stalled when no message comes for ``idle`` seconds."""

    async def receive_in_time() -> Message:
        try:
            async with asyncio.timeout(idle):
                return await receive()
        except TimeoutError:
            raise Stalled(f"nothing was received for {idle:.0f} s") from None

    return receive_in_time


async def refuse(
    scope: Scope, receive: Receive, send: Send, problem: Problem, *, begun: bool = False
) -> None:
    """Answer before the body is read to its end, and close the connection without losing the answer."""
    problem.headers["connection"] = "close"
    await problem.response()(scope, receive, send)
    await drain(scope, receive, begun=begun)


async def drain(scope: Scope, receive: Receive, *, begun: bool = False) -> None:
    """Read a little of the body of a request that is answered already, and drop it.

    A client that waits for "100 Continue" sends none, unless reading was ``begun``. Closing over unread bytes
    of any other resets the connection and may lose the answer; a client that goes on sending is not read any
    further.
    """
    if not begun and not _sends_a_body(scope):
        return
    drained = 0
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            while drained < DRAIN_BYTES:
                message = await receive()
                drained += len(message.get("body", b""))
                if message["type"] != "http.request" or not message.get("more_body"):
                    return
            await asyncio.sleep(DRAIN_SECONDS)
    except TimeoutError:
        pass


def _sends_a_body(scope: Scope) -> bool:
    headers = dict(scope["headers"])
    if b"expect" in headers:
        return False
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
