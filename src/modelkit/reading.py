"""Random access to bytes: what every header reader needs, and nothing more.

A local file, an in-memory blob and ranges of a registry all fit ``RangeReader``; a slice of one, such as
a file inside a tar, is one again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from typing import Protocol

from modelkit.errors import NotAModel


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


class LocalFile:
    """A regular local file; it is opened for each read, so that a thousand of them hold no descriptors."""

    def __init__(self, path: str) -> None:
        self._path = path
        status = os.stat(path)  # noqa: PTH116 - start-up time
        if not stat.S_ISREG(status.st_mode):
            raise NotAModel(path, "is no regular file")
        self._size = status.st_size

    @property
    def size(self) -> int:
        """Number of bytes in all."""
        return self._size

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``offset``; a short read of the system is continued."""
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            data = os.pread(descriptor, length, offset)
            while len(data) < length and offset + len(data) < self._size:
                more = os.pread(descriptor, length - len(data), offset + len(data))
                if not more:
                    break
                data += more
        finally:
            os.close(descriptor)
        return data


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


#: files of a model by path, each opened when it is needed
Files = Mapping[str, Callable[[], RangeReader]]


def read_small(files: Files, path: str, limit: int) -> bytes | None:
    """Return a file's bytes, nothing when it is not there or longer than ``limit``."""
    opener = files.get(path)
    if opener is None:
        return None
    reader = opener()
    return reader.read_at(0, reader.size) if reader.size <= limit else None
