"""A server before the lookup, or the planner, that goes wrong in the way it is told to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

import aiohttp
from aiohttp import web

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    Fault = Callable[["Front", web.Request], Awaitable[web.StreamResponse]]

_PIECE = b"x" * 65536
_DRIP_SECONDS = 0.05


class Front:
    """``async with`` it: passes requests on, or does ``fault`` to them; ``tokens`` are those it saw."""

    def __init__(self, upstream: str, trusted: ssl.SSLContext, shown: ssl.SSLContext | None) -> None:
        self.upstream = upstream
        self.trusted = trusted
        self.fault: Fault = passed_on
        self.tokens: list[str] = []
        self.url = ""
        #: set when a request has arrived
        self.met = asyncio.Event()
        self._shown = shown
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._shown).start()
        scheme = "https" if self._shown else "http"
        self.url = f"{scheme}://localhost:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.tokens.append(request.headers.get("Authorization", ""))
        self.met.set()
        return await self.fault(self, request)


async def passed_on(front: Front, request: web.Request) -> web.StreamResponse:
    """Pass the request on and its answer back."""
    kept = ("Authorization", "Content-Type")
    headers = {name: request.headers[name] for name in kept if name in request.headers}
    url, data = front.upstream + request.path_qs, await request.read() or None
    async with (
        aiohttp.ClientSession() as session,
        session.request(request.method, url, data=data, headers=headers, ssl=front.trusted) as answer,
    ):
        body = await answer.read()
        return web.Response(status=answer.status, body=body, content_type="application/json")


async def cut(front: Front, request: web.Request) -> web.StreamResponse:
    """Break the connection in the middle of the answer."""
    response = await _begun(request, length=100)
    await response.write(b'{"ready": tr')
    assert request.transport is not None
    request.transport.abort()
    return response


async def silent(_front: Front, _request: web.Request) -> web.StreamResponse:
    """Say nothing at all."""
    await asyncio.Event().wait()
    raise AssertionError


async def slow(_front: Front, request: web.Request) -> web.StreamResponse:
    """Answer so slowly that it never ends, but is never silent."""
    return await _endless(request, b" ", _DRIP_SECONDS)


async def huge(_front: Front, request: web.Request) -> web.StreamResponse:
    """Answer without an end, as fast as it is read."""
    return await _endless(request, _PIECE, 0)


def says(status: int, body: str | bytes) -> Fault:
    """Answer with these words."""

    async def fault(_front: Front, _request: web.Request) -> web.StreamResponse:
        raw = body.encode() if isinstance(body, str) else body
        return web.Response(status=status, body=raw, content_type="application/json")

    return fault


def elsewhere(url: str) -> Fault:
    """Send whoever asks to another place."""

    async def fault(_front: Front, request: web.Request) -> web.StreamResponse:
        raise web.HTTPTemporaryRedirect(url + request.path_qs)

    return fault


async def _begun(request: web.Request, length: int | None = None) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = length
    await response.prepare(request)
    return response


async def _endless(request: web.Request, piece: bytes, pause: float) -> web.StreamResponse:
    """Write until the client has gone, which a write alone does not notice."""
    response = await _begun(request)
    while request.transport is not None and not request.transport.is_closing():
        await response.write(piece)
        await asyncio.sleep(pause)
    return response
