"""A request body that is streamed from an iterator, with back-pressure and a stall limit.

What belongs here: handing pieces to aiohttp. What does not: what the pieces are.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import Payload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp.abc import AbstractStreamWriter


class WrongLength(ValueError):
    """The source yielded more or fewer bytes than were announced."""


class StreamedBody(Payload):
    """Pieces of ``source``, each written when the one before is on its way.

    ``limit`` cancels the sender when the connection takes a piece for longer than ``stall`` seconds, or does
    not answer for so long after the last one; a slow source is not the connection's fault and not limited.
    """

    _autoclose = True

    def __init__(
        self,
        source: AsyncIterator[bytes],
        length: int | None,
        limit: asyncio.Timeout,
        stall: float,
    ) -> None:
        super().__init__(source, content_type="application/octet-stream")
        self._source = source
        self._length = length
        self._limit = limit
        self._stall = stall
        self._written: asyncio.Event | None = None
        self.source_error: Exception | None = None

    @property
    def size(self) -> int | None:
        """The announced number of bytes; None sends chunks."""
        return self._length

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:  # noqa: ARG002 (aiohttp's port)
        """Refuse: a stream has no text."""
        raise TypeError("a streamed body is not text")

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write all pieces."""
        await self.write_with_length(writer, self._length)

    async def write_with_length(
        self,
        writer: AbstractStreamWriter,
        content_length: int | None,  # noqa: ARG002 (aiohttp's port)
    ) -> None:
        """Write all pieces; the source's error is kept for the sender, which the connection would hide."""
        self._consumed = True
        self._written = asyncio.Event()
        loop = asyncio.get_running_loop()
        sent = 0
        try:
            async for piece in self._pieces():
                sent += len(piece)
                if self._length is not None and sent > self._length:
                    break
                self._limit.reschedule(loop.time() + self._stall)
                await writer.write(piece)
                self._limit.reschedule(None)
            if self._length is not None and sent != self._length:
                self.source_error = WrongLength(f"the source yielded {sent} bytes, not {self._length}")
                raise self.source_error
            self._limit.reschedule(loop.time() + self._stall)
        finally:
            self._written.set()

    async def _pieces(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._source:
                yield piece
        except Exception as error:
            self.source_error = error
            raise

    async def finish(self) -> None:
        """Wait until nothing reads the source any more, then close it."""
        if self._written is not None:
            await self._written.wait()
        if (close := getattr(self._source, "aclose", None)) is not None:
            await close()
