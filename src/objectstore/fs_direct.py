"""Writing large bodies past the page cache.

The first bytes of an object go through the cache: one that is read soon after, as most are, is found there,
which costs less than reading it back. What a share of the memory does not hold is written past the cache,
where the disk's own engine moves it for a tenth of the processor time. Where the file system or the buffer
does not allow that, the caller writes as usual.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from opskit import memory

if TYPE_CHECKING:
    from pathlib import Path

#: Offset and length of a direct write are whole blocks; 4096 suits every disk, also those that say 512.
_BLOCK = 4096
_WORTH_IT = 1 << 20
#: so much of one object may fill the page cache: a sixteenth of the memory, and no more than this
_MOST_CACHED = 256 << 20
_SHARE = 16
_NOT_HERE = {errno.EINVAL, errno.EOPNOTSUPP}


class DirectFile:
    """A second descriptor of a file, for direct writes only."""

    def __init__(self, path: Path) -> None:
        self._descriptor: int | None = None
        self._cached = cached_bytes()
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
        if offset + size <= self._cached:
            return 0
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


def cached_bytes() -> int:
    """Return how many leading bytes of an object are left to the page cache."""
    limit = memory.limit() or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(limit // _SHARE, _MOST_CACHED)
