"""Random access to bytes: what every header reader needs, and nothing more.

A local file, an in-memory blob and ranges of a registry all fit ``RangeReader``; a slice of one, such as
a file inside a tar, is one again.
"""

from __future__ import annotations

import os
from typing import Protocol


class RangeReader(Protocol):
    """Bytes of known size that can be read from any offset."""

    @property
    def size(self) -> int:
        """Number of bytes in all."""

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``offset``; fewer only at the end."""


class MemoryReader:
    """Bytes that are in memory already."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size(self) -> int:
        """Number of bytes in all."""
        return len(self._data)

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``offset``."""
        return self._data[offset : offset + length]


class FileReader:
    """A local file, opened by its descriptor, read without moving its position."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
        self._size = os.fstat(self._descriptor).st_size

    @property
    def size(self) -> int:
        """Number of bytes in all."""
        return self._size

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``offset``; a short read of the system is continued."""
        data = os.pread(self._descriptor, length, offset)
        while len(data) < length and offset + len(data) < self._size:
            more = os.pread(self._descriptor, length - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)


class Slice:
    """A run of bytes inside another reader: one member of an archive."""

    def __init__(self, inside: RangeReader, start: int, size: int) -> None:
        self._inside = inside
        self.start = start
        self._size = size

    @property
    def size(self) -> int:
        """Number of bytes in all."""
        return self._size

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``offset``, never beyond the slice."""
        length = min(length, self._size - offset)
        return self._inside.read_at(self.start + offset, length) if length > 0 else b""
