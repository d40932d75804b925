"""Digests of a file's beginnings, so that an upload goes on only behind bytes of the same file."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from aictl.exits import Exit, Failure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from typing import BinaryIO

MARK = 64 << 20
READ = 1 << 20


class Prefixes:
    """Reads a file in pieces and remembers the state of its digest every 64 MiB.

    What was read once, to be sent or to be compared, is not hashed again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        stat = path.stat()
        self.size = stat.st_size
        self._changed = stat.st_mtime_ns
        self._marks = {0: hashlib.sha256()}

    async def digest(self, length: int) -> str:
        """Return the digest of the first bytes."""
        start = max(mark for mark in self._marks if mark <= length)
        state = self._marks[start].copy()
        await asyncio.to_thread(self._hash, state, start, length)
        return f"sha256:{state.hexdigest()}"

    async def chunks(self, offset: int, length: int) -> AsyncIterator[bytes]:
        """Yield the file from an offset, in pieces of that length; its digest is kept on the way."""
        position = offset
        start = max(mark for mark in self._marks if mark <= offset)
        state = self._marks[start].copy()
        await asyncio.to_thread(self._hash, state, start, offset)
        while position < self.size:
            chunk = await asyncio.to_thread(self._read, position, min(length, self.size - position))
            await asyncio.to_thread(self._take, state, position, chunk)
            position += len(chunk)
            yield chunk
        self.check()

    def check(self) -> None:
        """Fail when the file is not the one any more that it was at the beginning."""
        try:
            stat = self.path.stat()
        except OSError as error:
            raise self._was_changed() from error
        if (stat.st_size, stat.st_mtime_ns) != (self.size, self._changed):
            raise self._was_changed()

    def _opened(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise self._was_changed() from error

    def _read(self, position: int, length: int) -> bytes:
        """Return a piece; no file stays open in between, for whoever gives up half-way."""
        with self._opened() as file:
            file.seek(position)
            if chunk := file.read(length):
                return chunk
        raise self._was_changed()

    def _hash(self, state: hashlib._Hash, start: int, end: int) -> None:
        with self._opened() as file:
            file.seek(start)
            while start < end:
                chunk = file.read(min(READ, end - start))
                if not chunk:
                    raise self._was_changed()
                self._take(state, start, chunk)
                start += len(chunk)

    def _take(self, state: hashlib._Hash, position: int, chunk: bytes) -> None:
        """Add a piece to a state, and keep the state where a mark lies in the piece."""
        mark = (position // MARK + 1) * MARK
        cut = mark - position
        if cut > len(chunk):
            state.update(chunk)
            return
        state.update(chunk[:cut])
        self._marks.setdefault(mark, state.copy())
        state.update(chunk[cut:])

    def _was_changed(self) -> Failure:
        return Failure(
            f"{self.path} was changed or removed while it was read",
            "what arrived would be neither the old nor the new file",
            "Leave it alone and run the same command again",
            code=Exit.USAGE,
        )
