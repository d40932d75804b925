"""A TCP relay that breaks every connection after so many bytes, a number of times."""

from __future__ import annotations

import asyncio

from tests.kit.relay import PIECE, Relay


class Cutter(Relay):
    """``async with Cutter(port, after, times)``: each connection is aborted after ``after`` bytes."""

    def __init__(self, port: int, after: int, times: int) -> None:
        super().__init__(port)
        self._after = after
        self.left = times

    async def _both(
        self,
        reader: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        passed = [0]
        await asyncio.gather(self._pump(reader, back, passed), self._pump(there, writer, passed))

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, passed: list[int]
    ) -> None:
        while piece := await source.read(PIECE):
            passed[0] += len(piece)
            if passed[0] > self._after and self.left > 0:
                self.left -= 1
                raise ConnectionResetError
            sink.write(piece)
            await sink.drain()
        sink.close()
