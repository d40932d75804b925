"""Serving ASGI applications inside the caller's event loop, with graceful end and changing certificates.

What belongs here: TLS, start and stop. What does not: routes, limits, identities.

``serve`` ends by cancellation: no new connection is taken, requests at work get ``stop_within`` seconds.
Lifespan events are not sent: whoever awaits it owns the resources. For large bodies there is ``byteserver``.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from webkit import tls as tlsfiles
from webkit.listening import ServerEnded, bind

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from starlette.types import ASGIApp

    from webkit.tls import TlsFiles

#: A request's head has to be whole within so many seconds, and is at most so large.
HEAD_SECONDS = 15.0
_HEAD_BYTES = 64 << 10


async def serve(
    app: ASGIApp,
    *,
    host: str = "::",
    port: int,
    tls: TlsFiles | None = None,
    stop_within: float = 10.0,
    started: Callable[[int], None] | None = None,
) -> None:
    """Serve by uvicorn until cancelled; ``started`` is told the port once connections are accepted."""
    config = uvicorn.Config(
        app,
        http=_Protocol,
        h11_max_incomplete_event_size=_HEAD_BYTES,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=round(stop_within),
    )
    config.load()
    config.ssl = tls.context() if tls else None
    server = _Uvicorn(config, started)

    def reload() -> None:
        if tls and config.ssl:
            tls.load_into(config.ssl)

    with contextlib.closing(bind(host, port)) as listener:
        async with tlsfiles.watched(tls.paths() if tls else (), reload):
            running = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError:
                server.should_exit = True
                await running
                raise
    raise ServerEnded(f"the listener on port {port} ended by itself")


class _Protocol(H11Protocol):
    """uvicorn's faster protocol bounds neither the size of a head nor, like this one, its time."""

    _too_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unwatch_head()

    def _watch_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._unwatch_head()
        elif self._too_late is None:
            self._too_late = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _unwatch_head(self) -> None:
        if self._too_late:
            self._too_late.cancel()
            self._too_late = None


class _Uvicorn(uvicorn.Server):
    """Leaves the process's signals to whoever runs it."""

    def __init__(self, config: uvicorn.Config, started: Callable[[int], None] | None) -> None:
        super().__init__(config)
        self._tell = started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._tell and sockets:
            self._tell(sockets[0].getsockname()[1])
