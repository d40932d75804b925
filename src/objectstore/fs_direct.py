"""Writing large bodies past the page cache.

A part is read at most once soon after it is written, and a model is larger than what the cache should give
up for it. Filling the cache costs more processor time than hashing the bytes; past it the disk's own engine
moves them. Where the file system or the buffer does not allow it, the caller writes as usual.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: Offset and length of a direct write are whole blocks; 4096 suits every disk, also those that say 512.
_BLOCK = 4096
_WORTH_IT = 1 << 20
_NOT_HERE = {errno.EINVAL, errno.EOPNOTSUPP}


class DirectFile:
    """A second descriptor of a file, for direct writes only."""

    def __init__(self, path: Path) -> None:
        self._descriptor: int | None = None
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise

    def write(self, body: memoryview, offset: int) -> int:
        """Write as many leading bytes as can be written directly and return their number, perhaps 0.

        They are on the disk, but for its own cache and the file's metadata: flush the file as usual.
        """
        size = len(body) - len(body) % _BLOCK
        if self._descriptor is None or size < _WORTH_IT or offset % _BLOCK:
            return 0
        written = 0
        while written < size:
            try:
                written += os.pwrite(self._descriptor, body[written:size], offset + written)
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                break  # a buffer that is not aligned, or a file system that changed its mind
            if written % _BLOCK:
                break
        return written

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
