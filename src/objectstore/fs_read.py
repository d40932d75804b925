"""Reading a file in pieces: from the page cache without leaving the event loop, from the disk in a thread."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from objectstore.fs_files import ObjectDamaged, named_errors

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

#: So much is asked from the disk ahead of the reader after a piece was not in the page cache.
_AHEAD = 8 << 20


class PieceReader:
    """Reads a range of an open file into one buffer that is used again for every piece."""

    def __init__(self, descriptor: int, key: str, start: int, length: int, chunk: int) -> None:
        self._descriptor = descriptor
        self._key = key
        self._offset = start
        self._end = start + length
        self._buffer = memoryview(bytearray(max(1, min(chunk, length))))

    async def pieces(
        self, run: Callable[[Callable[[], None]], Awaitable[None]]
    ) -> AsyncGenerator[memoryview, None]:
        """Yield the range; ``run`` executes in a thread what may block."""
        while self._offset < self._end:
            piece = self._buffer[: min(len(self._buffer), self._end - self._offset)]
            got = self._from_cache(piece)
            if got < len(piece):
                await run(partial(self._from_disk, piece[got:], self._offset + got))
            self._offset += len(piece)
            yield piece

    def _from_cache(self, piece: memoryview) -> int:
        """Take what needs no waiting; whatever is wrong is found and named by reading from the disk."""
        try:
            return os.preadv(self._descriptor, [piece], self._offset, os.RWF_NOWAIT)
        except OSError:
            return 0

    def _from_disk(self, piece: memoryview, offset: int) -> None:
        with named_errors(f"reading {self._key}"):
            os.posix_fadvise(self._descriptor, offset, len(piece) + _AHEAD, os.POSIX_FADV_WILLNEED)
            while piece:
                got = os.preadv(self._descriptor, [piece], offset)
                if not got:
                    raise ObjectDamaged(f"the file of {self._key} is shorter than it was")
                piece, offset = piece[got:], offset + got
