"""Reading a file in pieces: from the page cache without leaving the event loop, from the disk in a thread.

The system reads ahead by itself for a sequential reader, and keeps what it read in large pages. Asking it to
(``POSIX_FADV_WILLNEED``) makes small ones: measured, every later read of them costs four times as much.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING

from objectstore.fs_files import ObjectDamaged, named_errors

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine
    from typing import Any


class PieceReader:
    """Reads a range of an open file, every piece into bytes of its own: a server sends them as they are."""

    def __init__(self, descriptor: int, key: str, start: int, length: int, chunk: int) -> None:
        self._descriptor = descriptor
        self._key = key
        self._offset = start
        self._end = start + length
        self._chunk = chunk
        self._probe = [bytearray(1)]

    async def pieces(
        self, run: Callable[[Callable[[], bytes]], Coroutine[Any, Any, bytes]]
    ) -> AsyncGenerator[memoryview, None]:
        """Yield the range; ``run`` executes in a thread what may block, also while a piece is being used."""
        with named_errors(f"reading {self._key}"):
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        ahead: asyncio.Task[bytes] | None = None
        try:
            while size := min(self._chunk, self._end - self._offset):
                read = partial(self._read, size, self._offset)
                if ahead is not None:
                    piece = await ahead
                else:
                    piece = read() if self._cached(size) else await run(read)
                self._offset += size
                ahead = self._begun(run)
                yield memoryview(piece)
        finally:
            if ahead is not None:  # the file must stay open for it
                await asyncio.gather(ahead, return_exceptions=True)

    def _begun(
        self, run: Callable[[Callable[[], bytes]], Coroutine[Any, Any, bytes]]
    ) -> asyncio.Task[bytes] | None:
        """Start reading the next piece, if there is one that has to be waited for."""
        size = min(self._chunk, self._end - self._offset)
        if not size or self._cached(size):
            return None
        return asyncio.create_task(run(partial(self._read, size, self._offset)))

    def _cached(self, size: int) -> bool:
        """Tell by both ends of a piece whether it needs no waiting; whatever is wrong is found by reading."""
        try:
            return all(
                os.preadv(self._descriptor, self._probe, offset, os.RWF_NOWAIT)
                for offset in (self._offset, self._offset + size - 1)
            )
        except OSError:
            return False

    def _read(self, size: int, offset: int) -> bytes:
        with named_errors(f"reading {self._key}"):
            piece = os.pread(self._descriptor, size, offset)
            while len(piece) < size:
                more = os.pread(self._descriptor, size - len(piece), offset + len(piece))
                if not more:
                    raise ObjectDamaged(f"the file of {self._key} is shorter than it was")
                piece += more
        return piece
