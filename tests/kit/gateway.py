"""An upload gateway in this process: one session, kept in memory, that can be told to fail.

``faults`` are consulted once each, in order, by the PUTs: an int cuts the connection after so many bytes of
the body, a Response-like tuple (status, headers, body) is the answer.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.test_utils import TestServer

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

Answer = tuple[int, dict[str, str], bytes]


def refusal(status: int, reason: str, message: str, next_step: str = "") -> Answer:
    """Return an answer in the form of the gateway's refusals."""
    body = {"reason": reason, "message": message, "nextStep": next_step}
    return status, {"Content-Type": "application/json"}, json.dumps(body).encode()


@dataclass
class Gateway:
    """What the session holds and what was asked of it."""

    token: str = "right"
    held: bytearray = field(default_factory=bytearray)
    received: bool = False
    filename: str = ""
    tells_digest: bool = True
    faults: list[int | Answer] = field(default_factory=list)
    head_faults: list[Answer] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    url: str = ""
    _met: bool = False

    async def is_received(self) -> bool:
        """Tell whether the whole file arrived."""
        return self.received

    async def was_busy(self) -> bool:
        """Tell whether a HEAD met one of the last faults."""
        return self._met

    async def head(self, request: web.Request) -> web.Response:
        self._check(request)
        if self.head_faults:
            answer = self.head_faults.pop(0)
            self._met = answer[0] >= 400
            return _response(answer)
        if self.received:
            return web.Response(status=409)
        headers = {"Upload-Offset": str(len(self.held))}
        if self.tells_digest:
            headers["Upload-Digest"] = _digest(self.held)
        return web.Response(headers=headers)

    async def put(self, request: web.Request) -> web.Response:
        self._check(request)
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, tuple):
            return _response(fault)
        spoken = request.headers.get("Content-Range", "")
        self.ranges.append(spoken)
        self.filename = request.query.get("filename", "")
        if not spoken:
            self.held.clear()
        elif int(spoken.removeprefix("bytes ").split("-")[0]) != len(self.held):
            return _response(refusal(416, "OffsetMismatch", "not where the session is"))
        taken = 0
        async for chunk in request.content.iter_chunked(64 * 1024):
            if isinstance(fault, int) and taken + len(chunk) > fault:
                self.held += chunk[: fault - taken]
                assert request.transport
                request.transport.abort()
                raise ConnectionResetError
            self.held += chunk
            taken += len(chunk)
        self.received = True
        return web.json_response({"digest": _digest(self.held), "sizeBytes": len(self.held)}, status=201)

    def _check(self, request: web.Request) -> None:
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            raise web.HTTPUnauthorized


@asynccontextmanager
async def serving(gateway: Gateway, tls: ssl.SSLContext | None = None) -> AsyncIterator[Gateway]:
    """Serve the gateway on a free port; ``gateway.url`` is the session's address."""
    app = web.Application(client_max_size=1 << 40)
    app.router.add_route("HEAD", "/v1/upload/session", gateway.head)
    app.router.add_put("/v1/upload/session", gateway.put)
    server = TestServer(app, scheme="https" if tls else "http")
    await server.start_server(ssl=tls)
    try:
        gateway.url = str(server.make_url("/v1/upload/session"))
        yield gateway
    finally:
        await server.close()


def _digest(content: bytes | bytearray) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _response(answer: Answer) -> web.Response:
    status, headers, body = answer
    return web.Response(status=status, headers=headers, body=body)
