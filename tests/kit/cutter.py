"""A TCP relay that breaks every connection after so many bytes, a number of times."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

_PIECE = 64 << 10


class Cutter:
    """``async with Cutter(port, after, times)``: each connection is aborted after ``after`` bytes."""

    def __init__(self, port: int, after: int, times: int) -> None:
        self._port = port
        self._after = after
        self.left = times
        self.url = ""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()  # nobody listens: the client has to learn that at once
            return
        passed = [0]
        with suppress(OSError):
            await asyncio.gather(self._pump(reader, back, passed), self._pump(there, writer, passed))
        for side in (writer, back):
            side.transport.abort()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, passed: list[int]
    ) -> None:
        while piece := await source.read(_PIECE):
            passed[0] += len(piece)
            if passed[0] > self._after and self.left > 0:
                self.left -= 1
                raise ConnectionResetError
            sink.write(piece)
            await sink.drain()
        sink.close()
