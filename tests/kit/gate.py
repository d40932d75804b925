"""A TCP relay that stops after so many bytes of answers: a test can act in the middle of a transfer."""

from __future__ import annotations

import asyncio

from tests.kit.relay import PIECE, Relay


class Gate(Relay):
    """``async with Gate(port, after) as gate``: relays to the port until ``after`` bytes came back.

    ``passed`` counts them; ``reached`` is set then, and nothing more passes that way until it is opened.
    """

    def __init__(self, port: int, after: int) -> None:
        super().__init__(port)
        self._after = after
        self.passed = 0
        self.reached = asyncio.Event()
        self._opened = asyncio.Event()

    def open(self) -> None:
        """Let everything pass from now on."""
        self._opened.set()

    async def _both(
        self,
        reader: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        await asyncio.gather(self._pump(reader, back), self._answers(there, writer))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while piece := await source.read(PIECE):
            sink.write(piece)
            await sink.drain()
        sink.close()

    async def _answers(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while piece := await source.read(PIECE):
            if self.passed + len(piece) > self._after:
                self.reached.set()
                await self._opened.wait()
            self.passed += len(piece)
            sink.write(piece)
            await sink.drain()
        sink.close()
