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
    """Reads a range of an open file, every piece into bytes of its own: a server sends them as they are."""

    def __init__(self, descriptor: int, key: str, start: int, length: int, chunk: int) -> None:
        self._descriptor = descriptor
        self._key = key
        self._offset = start
        self._end = start + length
        self._chunk = chunk
        self._probe = [bytearray(1)]

    async def pieces(
        self, run: Callable[[Callable[[], bytes]], Awaitable[bytes]]
    ) -> AsyncGenerator[memoryview, None]:
        """Yield the range; ``run`` executes in a thread what may block."""
        while self._offset < self._end:
            size = min(self._chunk, self._end - self._offset)
            read = partial(self._read, size, self._offset)
            piece = read() if self._cached(size) else await run(partial(self._ahead, read))
            self._offset += size
            yield memoryview(piece)

    def _cached(self, size: int) -> bool:
        """Tell by both ends of a piece whether it needs no waiting; whatever is wrong is found by reading."""
        try:
            return all(
                os.preadv(self._descriptor, self._probe, offset, os.RWF_NOWAIT)
                for offset in (self._offset, self._offset + size - 1)
            )
        except OSError:
            return False

    def _ahead(self, read: Callable[[], bytes]) -> bytes:
        """Ask the disk for what follows as well, then read."""
        with named_errors(f"reading {self._key}"):
            os.posix_fadvise(self._descriptor, self._offset, self._chunk + _AHEAD, os.POSIX_FADV_WILLNEED)
        return read()

    def _read(self, size: int, offset: int) -> bytes:
        with named_errors(f"reading {self._key}"):
            piece = os.pread(self._descriptor, size, offset)
            while len(piece) < size:
                more = os.pread(self._descriptor, size - len(piece), offset + len(piece))
                if not more:
                    raise ObjectDamaged(f"the file of {self._key} is shorter than it was")
                piece += more
        return piece
