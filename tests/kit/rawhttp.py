"""HTTP as bytes on both sides: what a client and a server send, piece by piece, when a test says."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Handler = Callable[["Exchange"], Awaitable[None]]

_LIMIT = 1 << 20
_PATIENCE = 60


@dataclass
class Exchange:
    """One connection to the server, its request's head read."""

    head: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def line(self) -> str:
        """Return the request line."""
        return self.head.partition("\r\n")[0]

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers by their names in lower case."""
        lines = self.head.split("\r\n")[1:]
        return {
            name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines) if name
        }

    async def body(self) -> int:
        """Read the whole body of a known length and return how long it was."""
        length = left = int(self.headers.get("content-length", "0"))
        while left:
            piece = await self.reader.read(min(left, 1 << 16))
            if not piece:
                raise ConnectionError(f"the body ended {left} bytes early")
            left -= len(piece)
        return length

    async def send(self, *pieces: bytes) -> None:
        """Send bytes as they are."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def answer(self, body: bytes = b"{}", status: str = "200 OK") -> None:
        """Send a whole answer and close."""
        await self.send(
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            f"Connection: close\r\n\r\n".encode(),
            body,
        )
        self.writer.close()

    async def gone(self) -> None:
        """Wait until the other side has closed."""
        async with asyncio.timeout(_PATIENCE):
            while await self.reader.read(1 << 16):
                pass

    def break_off(self) -> None:
        """End the connection as a process that dies does."""
        self.writer.transport.abort()


@dataclass
class Backend:
    """``async with Backend() as backend``: a server on a free port that does what a test or handler says."""

    handler: Handler | None = None
    port: int = 0
    met: asyncio.Queue[Exchange] = field(default_factory=asyncio.Queue)
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, on the same port as before when there was one."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, limit=_LIMIT)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and break every connection off."""
        assert self._server is not None
        self._server.close()
        for writer in self._open:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def next(self) -> Exchange:
        """Return the next request that arrives."""
        async with asyncio.timeout(_PATIENCE):
            return await self.met.get()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        self._tasks.add(asyncio.create_task(self._meet(reader, writer)))

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            exchange = Exchange(head, reader, writer)
            if self.handler:
                await self.handler(exchange)
            else:
                await self.met.put(exchange)
        except (OSError, asyncio.IncompleteReadError):
            writer.transport.abort()


@dataclass
class Answer:
    """What a client got: status, headers by their names in lower case, and the body so far as it came."""

    status: int
    headers: dict[str, str]
    body: bytes


class Wire:
    """``async with Wire(port) as wire``: one connection of a client."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port, limit=_LIMIT)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    async def send(self, text: str | bytes) -> None:
        """Send as it is."""
        self.writer.write(text.encode("latin-1") if isinstance(text, str) else text)
        await self.writer.drain()

    async def head(self) -> Answer:
        """Read an answer's head."""
        async with asyncio.timeout(_PATIENCE):
            text = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *lines = text.split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines) if name
        }
        return Answer(int(line.split()[1]), headers, b"")

    async def answer(self) -> Answer:
        """Read a whole answer of a known length."""
        answer = await self.head()
        async with asyncio.timeout(_PATIENCE):
            answer.body = await self.reader.readexactly(int(answer.headers.get("content-length", "0")))
        return answer

    async def until(self, wanted: bytes) -> bytes:
        """Read until this has come."""
        async with asyncio.timeout(_PATIENCE):
            return await self.reader.readuntil(wanted)

    async def end(self) -> bytes:
        """Read until the server closes, which it may do in either way."""
        async with asyncio.timeout(_PATIENCE):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""


def request(method: str, target: str, *headers: str, body: bytes = b"") -> bytes:
    """Return a request as bytes, nothing in it tidied up."""
    lines = [f"{method} {target} HTTP/1.1", "Host: gate", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


async def ask(port: int, method: str, target: str, *headers: str, body: bytes = b"") -> Answer:
    """Ask once and return the answer."""
    async with Wire(port) as wire:
        await wire.send(request(method, target, *headers, body=body))
        return await wire.answer()
