"""A TCP relay over which a whole connection breaks down, and stays down until it is mended."""

from __future__ import annotations

import asyncio
import math

from tests.kit.relay import PIECE, Relay


class Breaking(Relay):
    """``async with Breaking(port) as line``: relays to the port.

    ``left`` bytes of requests get through yet, of all connections together; then each is aborted, new ones
    too.
    """

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.left: float = math.inf

    @property
    def port(self) -> int:
        """Where clients connect."""
        return int(self.url.rpartition(":")[2])

    async def _both(
        self,
        reader: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        await asyncio.gather(self._requests(reader, back), self._answers(there, writer))

    async def _requests(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while piece := await source.read(PIECE):
            self.left -= len(piece)
            if self.left < 0:
                raise ConnectionResetError
            sink.write(piece)
            await sink.drain()
        sink.close()

    async def _answers(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while piece := await source.read(PIECE):
            sink.write(piece)
            await sink.drain()
        sink.close()
