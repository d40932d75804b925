"""A forward walk through a header of unknown length, in windows, with a limit on what is read at all."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - the library's name says nothing
from typing import TYPE_CHECKING

from modelkit.errors import Damaged

if TYPE_CHECKING:
    from modelkit.reading import RangeReader

_U32 = Struct("<I").unpack_from
_U64 = Struct("<Q").unpack_from
#: a small first window suits small headers, later ones are large enough to make calls cheap
_FIRST_WINDOW = 64 << 10
_LARGEST_WINDOW = 4 << 20


class Cursor:
    """Position in a header; every read checks the file's end and the header limit first."""

    def __init__(self, reader: RangeReader, where: str, limit: int) -> None:
        self._reader = reader
        self.where = where
        self._limit = limit
        self._end = min(reader.size, limit)
        self._window = b""
        self._start = 0
        self._next_size = _FIRST_WINDOW
        self._at = 0

    @property
    def offset(self) -> int:
        """Offset in the file of the next byte."""
        return self._start + self._at

    def damaged(self, why: str) -> Damaged:
        """Return the error for something wrong at the current offset."""
        return Damaged(self.where, f"offset {self.offset}: {why}")

    def _need(self, length: int) -> None:
        """Have ``length`` bytes in the window."""
        if self._at + length <= len(self._window):
            return
        offset = self.offset
        if offset + length > self._end:
            raise self._beyond(length)
        size = min(max(self._next_size, length), self._end - offset)
        self._next_size = min(4 * self._next_size, _LARGEST_WINDOW)
        self._window = b""  # the old one is let go before the new one is made
        self._window = self._reader.read_at(offset, size)
        self._start, self._at = offset, 0
        if len(self._window) < length:
            raise self.damaged("the file became shorter while it was read")

    def _beyond(self, length: int) -> Damaged:
        if self.offset + length > self._reader.size:
            return self.damaged(f"needs {length} bytes, but the file ends at {self._reader.size}")
        return self.damaged(f"the header is longer than {self._limit} bytes")

    def take(self, length: int) -> bytes:
        """Return the next bytes."""
        self._need(length)
        start = self._at
        self._at += length
        return self._window[start : self._at]

    def skip(self, length: int) -> None:
        """Pass over bytes without reading them."""
        if self.offset + length > self._end:
            raise self._beyond(length)
        self._at += length
        if self._at > len(self._window):
            self._start, self._at, self._window = self.offset, 0, b""

    def u32(self) -> int:
        """Return the next little-endian 32-bit number."""
        self._need(4)
        self._at += 4
        return int(_U32(self._window, self._at - 4)[0])

    def u64(self) -> int:
        """Return the next little-endian 64-bit number."""
        self._need(8)
        self._at += 8
        return int(_U64(self._window, self._at - 8)[0])

    def text(self, limit: int, what: str) -> str:
        """Return the next string (length, UTF-8), refused when longer than ``limit`` bytes."""
        length = self.u64()
        if length > limit:
            raise self.damaged(f"{what} of {length} bytes, at most {limit} are read")
        return self.take(length).decode(errors="replace")

    def skip_texts(self, count: int) -> None:
        """Pass over ``count`` strings; this loop is most of the work in a header with a large vocabulary."""
        unpack = _U64
        left = count
        while left:
            self._need(8)
            window, at, done = self._window, self._at, 0
            try:
                for done in range(left):  # noqa: B007 - where it stopped is the result
                    at += 8 + unpack(window, at)[0]
                done = left
            except (StructError, OverflowError):  # the next length lies behind the window
                pass
            left -= done
            self._at = min(at, len(window))
            self.skip(at - self._at)
