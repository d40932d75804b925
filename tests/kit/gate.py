"""A TCP relay that stops after so many bytes of answers: a test can act in the middle of a transfer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

_PIECE = 64 << 10


class Gate:
    """``async with Gate(port, after) as gate``: relays to the port until ``after`` bytes came back.

    ``passed`` counts them; ``reached`` is set then, and nothing more passes that way until it is opened.
    """

    def __init__(self, port: int, after: int) -> None:
        self._port = port
        self._after = after
        self.passed = 0
        self.reached = asyncio.Event()
        self._opened = asyncio.Event()
        self.url = ""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
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

    def open(self) -> None:
        """Let everything pass from now on."""
        self._opened.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.create_task(self._relay(reader, writer)))

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.close()  # nobody listens: the client has to learn that at once
            return
        try:
            await asyncio.gather(self._pump(reader, back), self._answers(there, writer))
        except OSError:
            pass  # either side went away, which is what tests do
        finally:
            writer.close()
            back.close()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while piece := await source.read(_PIECE):
            sink.write(piece)
            await sink.drain()
        sink.close()

    async def _answers(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while piece := await source.read(_PIECE):
            if self.passed + len(piece) > self._after:
                self.reached.set()
                await self._opened.wait()
            self.passed += len(piece)
            sink.write(piece)
            await sink.drain()
        sink.close()
