"""Calls an ASGI application without a server: one request, its body in pieces, the whole answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.types import ASGIApp, Message


class Answer:
    """Status, headers (lower case) and body."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    def __repr__(self) -> str:
        return f"<{self.status} {self.headers} {self.body[:300]!r}>"


class Call:
    """A request under way; ``disconnect`` cuts the client off."""

    def __init__(self, pieces: Sequence[bytes], *, whole: bool) -> None:
        self._pieces = list(pieces)
        self._whole = whole
        self._gone = asyncio.Event()
        self.sent: list[Message] = []

    def disconnect(self) -> None:
        self._gone.set()

    async def receive(self) -> Message:
        if self._pieces:
            piece = self._pieces.pop(0)
            more = bool(self._pieces) or not self._whole
            return {"type": "http.request", "body": piece, "more_body": more}
        if self._whole and not self._gone.is_set():
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    def answer(self) -> Answer | None:
        """What was answered; None when nobody was there to answer."""
        if not self.sent:
            return None
        headers = {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}
        body = b"".join(message.get("body", b"") for message in self.sent[1:])
        return Answer(self.sent[0]["status"], headers, body)


def scope_of(method: str, target: str, headers: Mapping[str, str]) -> dict[str, Any]:
    parts = urlsplit(target)
    return {
        "type": "http",
        "method": method,
        "path": parts.path,
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }


async def request(
    app: ASGIApp,
    method: str,
    target: str,
    body: bytes | Sequence[bytes] = b"",
    *,
    headers: Mapping[str, str] | None = None,
    call: Call | None = None,
) -> Answer:
    """Send one request and return its answer; an AssertionError when there is none."""
    pieces = [body] if isinstance(body, bytes) else list(body)
    call = call or Call(pieces, whole=True)
    length = sum(map(len, pieces))
    sent = {**({"Content-Length": str(length)} if length else {}), **(headers or {})}
    await app(scope_of(method, target, sent), call.receive, call.send)
    answer = call.answer()
    assert answer is not None, "no answer"
    return answer
