"""Files of the file-system store: how an object is laid out, made durable, locked and named as an error.

An object's file is its bytes followed by a trailer of 32 bytes (magic, ETag, size), so that bytes and ETag
always change together, by one rename, on every file system.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import struct
from typing import TYPE_CHECKING

from objectstore.port import (
    NoSuchKey,
    ObjectInfo,
    ObjectStoreError,
    StoreDenied,
    StoreFull,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TRAILER = struct.Struct(">8s16sQ")
_MAGIC = b"\x89object\x01"
_STRIPES = 4096
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


class ObjectDamaged(ObjectStoreError):
    """The file of an object is not what this store wrote: the disk or somebody else changed it."""


def new_etag() -> str:
    """Return an ETag that was never used before."""
    return secrets.token_hex(16)


def trailer(etag: str, size: int) -> bytes:
    """Return what follows the object's bytes in its file."""
    return _TRAILER.pack(_MAGIC, bytes.fromhex(etag), size)


def info(descriptor: int, key: str) -> ObjectInfo:
    """Read size and ETag from an object's open file."""
    size = os.fstat(descriptor).st_size - _TRAILER.size
    raw = os.pread(descriptor, _TRAILER.size, size) if size >= 0 else b""
    if len(raw) == _TRAILER.size:
        magic, etag, stated = _TRAILER.unpack(raw)
        if magic == _MAGIC and stated == size:
            return ObjectInfo(size, etag.hex())
    raise ObjectDamaged(f"the file of {key} is damaged: restore it or delete the object")


@contextlib.contextmanager
def opened(path: Path, key: str) -> Iterator[int]:
    """Open an object's file for reading."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NoSuchKey(f"{key} does not exist") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def named_errors(what: str) -> Iterator[None]:
    """Turn the operating system's errors into the port's."""
    try:
        yield
    except OSError as error:
        text = f"{what}: {error.strerror or error}"
        if error.errno in _FULL:
            raise StoreFull(f"{text}; free space or enlarge the volume") from error
        if error.errno in _DENIED:
            raise StoreDenied(f"{text}; the store's directory must be writable for this process") from error
        raise StoreUnavailable(text) from error


def write_all(descriptor: int, body: memoryview, offset: int) -> None:
    """Write the whole body at the offset."""
    while body:
        written = os.pwrite(descriptor, body, offset)
        body, offset = body[written:], offset + written


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(directory: Path, root: Path) -> None:
    """Make a directory below ``root`` and every missing one above it, durably."""
    missing = []
    while directory != root and not directory.is_dir():
        missing.append(directory)
        directory = directory.parent
    for made in reversed(missing):
        made.mkdir(exist_ok=True)
        sync_directory(made.parent)


class Locks:
    """Mutual exclusion per key, between threads and between processes: flock on one of 4,096 small files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @contextlib.contextmanager
    def held(self, key: str) -> Iterator[None]:
        """Hold the lock that covers the key."""
        stripe = int.from_bytes(hashlib.sha256(key.encode()).digest()[:2], "big") % _STRIPES
        path = self._directory / f"{stripe:03x}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


class Scratch:
    """A directory for this store's unfinished files; the next store to open removes it if we die."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self.directory = parent / secrets.token_hex(8)
        self._lock = _lock_file(parent / f"{self.directory.name}.lock")
        self.directory.mkdir()

    def new(self) -> Path:
        """Return an unused path."""
        return self.directory / secrets.token_hex(8)

    def remove_dead(self) -> None:
        """Remove what stores left behind that do not live any more."""
        for path in self._parent.glob("*.lock"):
            with contextlib.suppress(OSError):
                descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path.with_suffix(""), ignore_errors=True)
                    path.unlink()
                finally:
                    os.close(descriptor)

    def close(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.with_suffix(".lock").unlink(missing_ok=True)
        os.close(self._lock)


def _lock_file(path: Path) -> int:
    """Create and lock a file; another store may remove it in between, so look that it is still there."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        os.close(descriptor)
