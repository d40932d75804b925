"""Ranges of blobs straight into the caller's memory: blocking reads in threads, no copy in between.

What belongs here: filling memory that somebody else owns. What does not: its order, its digest.

Measured against streaming through the event loop: half the processor time per byte, since the kernel writes
into the buffer that is hashed and written to disk. A thread holds no lock while it waits for bytes.
"""

from __future__ import annotations

import asyncio
import http.client
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from modelio.registry.errors import (
    RegistryError,
    RegistryUnavailable,
    TransferStalled,
    from_answer,
)
from modelio.registry.persistence import Persistence
from modelio.registry.reading import promised

if TYPE_CHECKING:
    import ssl

    from modelio.registry.transport import Transport

#: What may have to be read again after a lost connection.
_SLICE = 1 << 20
_GOOD = {200, 206}


class DirectReads:
    """Connections and threads for up to ``at_once`` ranges at a time; closed by leaving the context."""

    def __init__(self, transport: Transport, at_once: int) -> None:
        self._transport = transport
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="range")
        self._slots = asyncio.Semaphore(at_once)
        self._idle: list[_Wire] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for wire in self._idle:
            wire.close()
        self._threads.shutdown()

    async def into(self, repository: str, digest: str, start: int, view: memoryview) -> None:
        """Fill ``view`` with the blob's bytes from ``start``, going on after lost connections.

        The memory belongs to this call until it returns or raises, also when it is cancelled.
        """
        path = f"/v2/{repository}/blobs/{digest}"
        persistence = Persistence(self._transport.patience)
        done = 0
        async with self._slots:
            while done < len(view):
                grant = await self._transport.grant()
                read = _Read(path, start + done, view[done:], grant)
                failure = await self._attempt(read)
                done += read.done
                if failure is None:
                    return
                if read.done:
                    persistence.moved()
                self._transport.refused(failure, grant)
                await persistence.bear(failure)

    async def _attempt(self, read: _Read) -> RegistryError | None:
        wire = self._idle.pop() if self._idle else _Wire.to(self._transport)
        running = asyncio.get_running_loop().run_in_executor(self._threads, wire.run, read)
        try:
            failure = await asyncio.shield(running)
        except BaseException:
            wire.abort()
            await asyncio.wait([running])
            wire.close()
            raise
        if failure is None:
            self._idle.append(wire)
        else:
            wire.close()
        return failure


@dataclass
class _Read:
    """One range on its way; ``done`` bytes of it are in the view."""

    path: str
    start: int
    view: memoryview
    grant: str | None
    done: int = 0


class _Wire:
    """One connection, used by one thread at a time."""

    def __init__(self, connection: http.client.HTTPConnection, stall: float) -> None:
        self._connection = connection
        self._stall = stall
        self._aborted = False

    @classmethod
    def to(cls, transport: Transport) -> Self:
        """Return an unopened connection to the registry."""
        host, port, patience = transport.base.host or "", transport.base.port, transport.patience
        connection: http.client.HTTPConnection
        if transport.base.scheme == "https":
            tls: ssl.SSLContext = transport.trust()
            connection = http.client.HTTPSConnection(host, port, timeout=patience.connect, context=tls)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=patience.connect)
        return cls(connection, patience.stall)

    def run(self, read: _Read) -> RegistryError | None:
        """Read in a worker's thread; what went wrong is returned."""
        try:
            self._read(read)
        except RegistryError as error:
            return error
        except TimeoutError as error:
            return TransferStalled(f"GET {read.path}: no byte came for too long: {error}")
        except (OSError, http.client.HTTPException) as error:
            return RegistryUnavailable(f"GET {read.path}: {error or type(error).__name__}")
        return None

    def abort(self) -> None:
        """Wake the thread that waits on this connection; it ends with an error."""
        self._aborted = True
        sock: socket.socket | None = self._connection.sock
        if sock is not None:
            with suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _read(self, read: _Read) -> None:
        headers = {"Range": f"bytes={read.start}-{read.start + len(read.view) - 1}"}
        if read.grant is not None:
            headers["Authorization"] = f"Bearer {read.grant}"
        self._connect()
        self._connection.request("GET", read.path, headers=headers)
        answer = self._connection.getresponse()
        if answer.status not in _GOOD:
            said = answer.read(4096)
            raise from_answer("GET", read.path, answer.status, said, answer.getheader("Retry-After"))
        told = {name: answer.getheader(name, "") for name in ("Content-Length", "Content-Range")}
        promised(read.path, answer.status, told, read.start, read.start + len(read.view))
        while read.done < len(read.view):
            count = answer.readinto(read.view[read.done : read.done + _SLICE])
            if count == 0:
                raise RegistryUnavailable(f"GET {read.path}: the answer ended early")
            read.done += count
        answer.read()

    def _connect(self) -> None:
        if self._connection.sock is None:
            self._connection.connect()
            sock: socket.socket | None = self._connection.sock
            if sock is not None:
                sock.settimeout(self._stall)
        if self._aborted:
            raise RegistryUnavailable("the read was given up")
