"""Requests and answers of the /v2 wire, as thin as the bytes need it.

What belongs here: reading a request's line, headers and small bodies; sending an answer, refusals included.
What does not: what any path means.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, unquote

import msgspec

from aimodels.dmcr.principal import EVERYONE, Principal
from aimodels.dmcr.problems import Invalid, RegistryProblem

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from starlette.types import Receive, Scope, Send

JSON = "application/json"
#: a body that is held in memory while it comes has to come in this time
SMALL_BODY_SECONDS = 60.0
_MOST_QUERY = 16 << 10
_NO_CONTENT = frozenset({204, 304})


class Cut(Exception):
    """The client went away: there is nobody to answer."""


class Request:
    """One request; header names are lower case, the path is decoded, the body is read by whoever wants it."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path = unquote(scope.get("raw_path") or scope["path"].encode(), errors="replace")
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self.principal: Principal = EVERYONE
        self.writable = True
        self.receive = receive
        self.finished = not self._announces_body()
        self._arrived = 0
        self._query: bytes = scope["query_string"]

    @property
    def query(self) -> dict[str, list[str]]:
        """Return the parameters of the query string, empty ones included."""
        if len(self._query) > _MOST_QUERY:
            raise Invalid("the query is too long: use fewer parameters", status=414, code="UNSUPPORTED")
        return parse_qs(self._query.decode("latin-1"), keep_blank_values=True)

    def parameter(self, name: str) -> str | None:
        """Return the first value of a parameter."""
        values = self.query.get(name)
        return values[0] if values else None

    @property
    def length(self) -> int | None:
        """Return Content-Length; None when the body is streamed."""
        return self.number("content-length")

    def number(self, header: str) -> int | None:
        """Return a header that is a whole number, None when it is absent."""
        text = self.headers.get(header)
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > len(str(1 << 63)):
            raise Invalid(f"header {header} is not a number", code="SIZE_INVALID")
        return int(text)

    async def message(self) -> bytes | None:
        """Return the next bytes of the body, None behind the last; Cut when the client went away before."""
        if self.finished:
            if self.length not in (None, self._arrived):
                raise Cut
            return None
        message = await self.receive()
        if message["type"] != "http.request":
            raise Cut
        self.finished = not message.get("more_body", False)
        body: bytes = message.get("body", b"")
        self._arrived += len(body)
        return body

    async def small_body(self, at_most: int, problem: RegistryProblem) -> bytes:
        """Return the whole body; raise the problem when it is larger, 408 when it does not come in time."""
        if (self.length or 0) > at_most:
            raise problem
        body = bytearray()
        try:
            async with asyncio.timeout(SMALL_BODY_SECONDS):
                while (piece := await self.message()) is not None:
                    body += piece
                    if len(body) > at_most:
                        raise problem
        except TimeoutError:
            raise RegistryProblem(
                f"the body did not come within {SMALL_BODY_SECONDS:.0f} s: send it again",
                status=408,
                code="SIZE_INVALID",
            ) from None
        return bytes(body)

    def _announces_body(self) -> bool:
        return self.headers.get("content-length", "0") != "0" or "transfer-encoding" in self.headers


class Answer(msgspec.Struct, frozen=True):
    """Status, headers, and a body that is whole or comes in pieces."""

    status: int
    headers: Mapping[str, str] = {}
    body: bytes | AsyncGenerator[bytes] = b""

    async def send(self, send: Send, *, head: bool = False, patience: float | None = None) -> None:
        """Send it; ``head`` leaves the body out and keeps its headers.

        TimeoutError when the client takes none of a piece for ``patience`` seconds: it holds memory.
        """
        headers = {name.lower(): value for name, value in self.headers.items()}
        headers.setdefault("x-content-type-options", "nosniff")
        if isinstance(self.body, bytes) and self.status not in _NO_CONTENT:
            headers.setdefault("content-length", str(len(self.body)))
        pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": pairs})
        if isinstance(self.body, bytes):
            await send({"type": "http.response.body", "body": b"" if head else self.body})
            return
        async with aclosing(self.body) as pieces:
            async for piece in pieces:
                async with asyncio.timeout(patience):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def refusal(problem: RegistryProblem) -> Answer:
    """Return the answer that a refusal gives."""
    return Answer(problem.status, {"content-type": JSON, **problem.headers}, problem.body())


def next_page(path: str, **parameters: str) -> dict[str, str]:
    """Return the Link header to the next page."""
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())
    return {"Link": f'<{path}?{query}>; rel="next"'}
