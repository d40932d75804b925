"""An HTTP proxy before a real server that goes wrong when it is told to; bodies stream through both ways.

Each fault waits for one request, told by its method and a part of its path, and is used up by it; faults
are looked at in the order in which they were told.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import aiohttp
from aiohttp import web
from yarl import URL

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

#: Headers of one connection, not of what goes over it.
_OWN = {"connection", "keep-alive", "transfer-encoding", "host", "date", "server"}


class Seen(NamedTuple):
    """A request as it arrived."""

    method: str
    path: str
    authorization: str | None
    range: str | None  #: Range, or Content-Range of what is sent
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Fault:
    method: str
    path: str
    handler: Handler


class HttpProxy:
    """``async with HttpProxy(upstream) as proxy``: ``proxy.url`` leads to the upstream.

    ``keep_host`` is for requests whose signature covers the host's name.
    """

    def __init__(
        self,
        upstream: str,
        tls: ssl.SSLContext | None = None,
        *,
        trust: ssl.SSLContext | None = None,
        keep_host: bool = False,
    ) -> None:
        self.seen: list[Seen] = []
        self.url = ""
        self._upstream = upstream
        self._tls = tls
        self._trust = trust or True
        self._kept_back = _OWN - {"host"} if keep_host else _OWN
        self._faults: list[Fault] = []
        self._stale: set[str] = set()
        self._connections: set[web.RequestHandler] = set()
        self._ended = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._client = aiohttp.ClientSession(auto_decompress=False)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        self.url = f"http{'s' if self._tls else ''}://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended.set()
        await self._runner.cleanup()
        await self._client.close()

    @property
    def connections(self) -> int:
        """Different connections that requests came over."""
        return len(self._connections)

    def asked(self, method: str, path: str = "") -> list[Seen]:
        """Return the requests of a method whose path holds this."""
        return [one for one in self.seen if one.method == method and path in one.path]

    def handle(self, method: str, path: str, handler: Handler) -> None:
        """Let a call answer."""
        self._faults.append(Fault(method, path, handler))

    def reply(
        self, method: str, path: str, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        """Give this answer instead of the upstream's."""

        async def answer(_: web.Request) -> web.StreamResponse:
            return web.Response(status=status, body=body, headers=headers)

        self.handle(method, path, answer)

    def fail(self, method: str, path: str, status: int, **headers: str) -> None:
        """Answer with an error as registries do."""
        body = b'{"errors":[{"code":"TESTED","message":"on purpose"}]}'
        self.reply(method, path, status, body, {name.replace("_", "-"): one for name, one in headers.items()})

    def drip(self, method: str, path: str, status: int, body: bytes) -> None:
        """Answer a byte at a time."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(status=status)
            response.content_length = len(body)
            await response.prepare(request)
            for at in range(len(body)):
                await response.write(body[at : at + 1])
                await asyncio.sleep(0)
            return response

        self.handle(method, path, answer)

    def hang(self, method: str, path: str) -> asyncio.Event:
        """Leave a request without an answer, its body unread; the event tells that it has come."""
        met = asyncio.Event()

        async def silent(_: web.Request) -> web.StreamResponse:
            met.set()
            await self._ended.wait()
            return web.Response()

        self.handle(method, path, silent)
        return met

    def cut_request(self, method: str, path: str, after: int) -> None:
        """Break both connections once so much of the request's body has gone through."""

        async def cut(request: web.Request) -> web.StreamResponse:
            return await self._forward(request, body=_first(request, after))

        self.handle(method, path, cut)

    def cut_answer(self, method: str, path: str, after: int, *, stall: bool = False) -> asyncio.Event:
        """Break the connection, or fall silent, once so much of the answer's body has come through."""
        met = asyncio.Event()

        async def cut(request: web.Request) -> web.StreamResponse:
            return await self._forward(request, after=after, met=met, stall=stall)

        self.handle(method, path, cut)
        return met

    def lose_answer(self, method: str, path: str) -> None:
        """Let the upstream do it, and break the connection instead of telling what it answered."""

        async def lost(request: web.Request) -> web.StreamResponse:
            async with self._asked(request) as answer:
                await answer.read()
            if request.transport:
                request.transport.abort()
            return web.Response()

        self.handle(method, path, lost)

    def let_pass(
        self, method: str, path: str, meanwhile: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        """Leave a request alone, perhaps after a call: the next one meets what is told after this."""

        async def through(request: web.Request) -> web.StreamResponse:
            if meanwhile:
                await meanwhile()
            return await self._forward(request)

        self.handle(method, path, through)

    def ignore_range(self, method: str, path: str) -> None:
        """Let the upstream see no Range."""

        async def whole(request: web.Request) -> web.StreamResponse:
            return await self._forward(request, without="Range")

        self.handle(method, path, whole)

    def redirect(self, method: str, path: str, location: str) -> None:
        """Send the client elsewhere."""
        self.reply(method, path, 307, headers={"Location": location} if location else None)

    def forgive(self) -> None:
        """Forget the faults that nobody has met."""
        self._faults.clear()

    def make_stale(self, authorization: str) -> None:
        """Refuse these credentials from now on."""
        self._stale.add(authorization)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        shown = request.headers.get("Authorization")
        self._connections.add(request.protocol)
        self.seen.append(Seen(request.method, request.raw_path, shown, _range(request), request.headers))
        for fault in self._faults:
            if fault.method == request.method and fault.path in request.raw_path:
                self._faults.remove(fault)
                return await fault.handler(request)
        if shown in self._stale:
            return web.Response(status=401)
        return await self._forward(request)

    async def _forward(
        self,
        request: web.Request,
        *,
        body: AsyncGenerator[bytes, None] | None = None,
        without: str = "",
        after: int | None = None,
        met: asyncio.Event | None = None,
        stall: bool = False,
    ) -> web.StreamResponse:
        async with self._asked(request, body=body, without=without) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _OWN}
            response = web.StreamResponse(status=answer.status, headers=kept)
            with suppress(ConnectionError):
                await response.prepare(request)
                async for piece in answer.content.iter_any():
                    if after is not None and after < len(piece):
                        await response.write(piece[:after])
                        await self._stop(request, met, stall=stall)
                        break
                    after = None if after is None else after - len(piece)
                    await response.write(piece)
            return response

    def _asked(
        self, request: web.Request, *, body: AsyncGenerator[bytes, None] | None = None, without: str = ""
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in self._kept_back and name != without
        }
        sent = body or (request.content.iter_any() if request.can_read_body else None)
        target = URL(self._upstream + request.raw_path, encoded=True)
        return self._client.request(
            request.method, target, headers=headers, data=sent, allow_redirects=False, ssl=self._trust
        )

    async def _stop(self, request: web.Request, met: asyncio.Event | None, *, stall: bool) -> None:
        if met:
            met.set()
        if stall:
            await self._ended.wait()
        if request.transport:
            request.transport.close()


def _range(request: web.Request) -> str | None:
    return request.headers.get("Content-Range") or request.headers.get("Range")


async def _first(request: web.Request, count: int) -> AsyncGenerator[bytes, None]:
    async for piece in request.content.iter_any():
        if count < len(piece):
            yield piece[:count]
            if request.transport:
                request.transport.abort()
            raise ConnectionResetError
        count -= len(piece)
        yield piece
