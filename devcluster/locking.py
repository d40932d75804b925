"""One command at a time on one cluster: `up` and `down` of the same folder wait for each other."""

from __future__ import annotations

import contextlib
import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Hold the folder, made when it is not there; an empty one is removed afterwards.

    The lock is on the folder itself, so that it leaves no file behind.
    """
    descriptor = _locked(directory)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            directory.rmdir()
        os.close(descriptor)


def _locked(directory: Path) -> int:
    """Lock the folder that has the name now: it may have been removed and made again while waiting."""
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if directory.exists() and os.path.samestat(os.fstat(descriptor), directory.stat()):
            return descriptor
        os.close(descriptor)
