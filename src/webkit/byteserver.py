"""Serving large bodies inside the caller's event loop, by granian: half the CPU per byte of ``server``.

What belongs here: start, stop and certificates of the byte server. What does not: routes, limits, identities.

One process, one event loop: who kills the process kills the transfers with it, and nothing else serves on.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.log import LogLevels
from granian.server.embed import AsyncWorker
from granian.server.embed import Server as GranianServer

from webkit import tls as tlsfiles
from webkit.listening import BACKLOG, ServerEnded, bind

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from starlette.types import ASGIApp

    from webkit.tls import TlsFiles


#: After a change of certificate the old worker takes connections for so many seconds more.
_OVERLAP = 0.5


async def serve(
    app: ASGIApp,
    *,
    host: str = "::",
    port: int,
    tls: TlsFiles | None = None,
    stop_within: float = 10.0,
    started: Callable[[int], None] | None = None,
    stopping: Callable[[], None] | None = None,
) -> None:
    """Serve until cancelled; ``started`` is told the port once connections are accepted.

    ``stopping`` is called first of all when the end begins: whoever holds long requests can end them well.

    Connections at work keep the certificate that they began with. Lifespan events are not sent.
    """
    listener = bind(host, port)
    server = _Granian(app, listener, tls)
    async with tlsfiles.watched(tls.paths() if tls else (), server.read_again):
        running = asyncio.create_task(server.serve())
        if started:
            started(listener.getsockname()[1])
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            listener.close()
            if stopping:
                stopping()
            server.signal_handler_interrupt()  # type: ignore[no-untyped-call]
            await asyncio.wait({running}, timeout=stop_within)
            raise
        finally:
            listener.close()
    raise ServerEnded(f"the listener on port {port} ended by itself")


class _Granian(GranianServer):
    """granian on our own socket, in our own event loop, logging as the process does."""

    def __init__(self, app: ASGIApp, listener: socket.socket, tls: TlsFiles | None) -> None:
        self._listener = listener
        self._tls = tls
        quiet: dict[str, Any] = {"handlers": [], "propagate": True}
        super().__init__(
            app,
            interface=Interfaces.ASGINL,
            http=HTTPModes.http1,
            websockets=False,
            backpressure=BACKLOG,
            log_level=LogLevels.error,
            log_dictconfig={
                "formatters": {},
                "handlers": {},
                "loggers": {"_granian": dict(quiet), "granian.access": dict(quiet)},
            },
        )
        self.respawn_interval = _OVERLAP
        self._read_certificate()

    def read_again(self) -> None:
        """Begin a worker with the certificate that the files hold now; the old one finishes its requests."""
        self._read_certificate()
        self.signal_handler_reload()  # type: ignore[no-untyped-call]

    def _read_certificate(self) -> None:
        if self._tls:
            self._tls.check()  # a worker that cannot use them would end the whole server
            files = (self._tls.certificate, self._tls.key)
            self.build_ssl_context(*files, None, SSLProtocols.tls12, None, [], client_verify=False)

    def _init_shared_socket(self) -> None:
        """Make no socket: each worker gets a duplicate of ours, which it closes at its end."""

    def _spawn_worker(  # type: ignore[override]  # granian's own embedded server narrows it like this
        self, idx: int, target: Any, callback_loader: Any
    ) -> AsyncWorker:
        # granian's type stub knows no arguments here: file descriptor, whether a Unix socket, backlog
        duplicate = os.dup(self._listener.fileno())
        self._shd = SocketHolder(duplicate, False, BACKLOG)  # type: ignore[assignment,call-arg]  # noqa: FBT003
        return super()._spawn_worker(idx, target, callback_loader)
