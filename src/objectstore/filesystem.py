"""The object store in a directory: durable, atomic per key, safe for several processes on one machine.

Layout below the root: ``objects`` (one file per key), ``multipart`` (one directory per unfinished upload),
``locks`` (for compare-and-swap), ``tmp`` (unfinished files of living stores). What a call returned is
durable: bytes are synced before they get their name, and the name before the answer.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import TYPE_CHECKING

from objectstore import keys
from objectstore.fs_files import (
    Locks,
    Scratch,
    info,
    make_directories,
    named_errors,
    new_etag,
    opened,
    sync_directory,
    trailer,
    write_all,
)
from objectstore.fs_multipart import Multiparts
from objectstore.fs_names import keys_below, relative_path
from objectstore.fs_read import PieceReader
from objectstore.port import (
    InvalidRange,
    NoSuchKey,
    ObjectInfo,
    ObjectStore,
    PartInfo,
    PreconditionFailed,
    StoredObject,
)
from objectstore.threads import Threads

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
    from pathlib import Path

Body = bytes | bytearray | memoryview

#: Small writes wait for the disk's journal; many waiting together share one commit.
_THREADS = 32


class FileSystemStore(ObjectStore):
    """Objects as files below ``root``, which is made when it does not exist."""

    def __init__(self, root: Path) -> None:
        self._objects = root / "objects"
        with named_errors(f"opening the store {root}"):
            for directory in (self._objects, root / "multipart", root / "locks", root / "tmp"):
                directory.mkdir(parents=True, exist_ok=True)
            sync_directory(root)
            self._scratch = Scratch(root / "tmp")
            self._scratch.remove_dead()
        self._locks = Locks(root / "locks")
        self._multiparts = Multiparts(root / "multipart", self._scratch, self._publish)
        self._threads = Threads(_THREADS)

    async def get(self, key: str) -> StoredObject:
        """Return the object."""
        return await self._threads.run(self._get, key)

    def _get(self, key: str) -> StoredObject:
        with named_errors(f"reading {key}"), opened(self._path(key), key) as descriptor:
            found = info(descriptor, key)
            keys.checked_small(key, found.size)
            return StoredObject(os.pread(descriptor, found.size, 0), found.etag)

    async def head(self, key: str) -> ObjectInfo:
        """Return size and ETag."""
        return await self._threads.run(self._head, key)

    def _head(self, key: str) -> ObjectInfo:
        with named_errors(f"reading {key}"), opened(self._path(key), key) as descriptor:
            return info(descriptor, key)

    async def read(
        self, key: str, start: int = 0, length: int | None = None, *, chunk: int = 1 << 20
    ) -> AsyncGenerator[memoryview, None]:
        """Yield the range in pieces."""
        with contextlib.ExitStack() as stack:
            descriptor, size = await self._threads.run(self._begin_reading, key, stack)
            if start and start >= size:
                raise InvalidRange(f"{key} has {size} bytes, none from {start} on")
            length = size - start if length is None else min(length, size - start)
            reader = PieceReader(descriptor, key, start, length, chunk)
            async with contextlib.aclosing(reader.pieces(self._threads.run)) as pieces:
                async for piece in pieces:
                    yield piece

    def _begin_reading(self, key: str, stack: contextlib.ExitStack) -> tuple[int, int]:
        """Return the open file, which the stack closes, and the object's size."""
        with named_errors(f"reading {key}"):
            descriptor = stack.enter_context(opened(self._path(key), key))
            return descriptor, info(descriptor, key).size

    async def put(
        self,
        key: str,
        body: Body,
        *,
        if_match: str | None = None,
        if_none_match: bool = False,
    ) -> str:
        """Store the object when the condition holds."""
        condition = partial(self._check, key, if_match, if_none_match=if_none_match)
        return await self._threads.run(self._put, key, body, condition)

    def _put(self, key: str, body: Body, condition: Callable[[], None]) -> str:
        with named_errors(f"writing {key}"):
            condition()
            etag, path = new_etag(), self._scratch.new()
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                with memoryview(body) as view:
                    write_all(descriptor, view, 0)
                    write_all(descriptor, memoryview(trailer(etag, len(view))), len(view))
                os.fsync(descriptor)
                self._publish(path, key, condition)
            except BaseException:
                path.unlink(missing_ok=True)
                raise
            finally:
                os.close(descriptor)
            return etag

    def _check(self, key: str, if_match: str | None, *, if_none_match: bool) -> None:
        if if_match is None and not if_none_match:
            return
        try:
            etag = self._head(key).etag
        except NoSuchKey:
            etag = None
        if if_none_match and etag is not None:
            raise PreconditionFailed(f"{key} exists already")
        if if_match is not None and etag != if_match:
            raise PreconditionFailed(f"{key} is not at the ETag that was read")

    def _publish(self, path: Path, key: str, condition: Callable[[], None] | None = None) -> None:
        """Give a durable file the key's name, if the condition still holds then."""
        target = self._path(key)
        make_directories(target.parent, self._objects)
        with self._locks.held(key):
            if condition:
                condition()
            path.rename(target)
        sync_directory(target.parent)

    async def delete(self, key: str) -> None:
        """Remove the object."""
        await self._threads.run(self._delete, key)

    def _delete(self, key: str) -> None:
        path = self._path(key)
        with named_errors(f"deleting {key}"):
            with self._locks.held(key):
                try:
                    path.unlink()
                except FileNotFoundError:
                    return
            sync_directory(path.parent)

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[str]:
        """Yield the keys that exist now, in byte order."""
        for key in await self._threads.run(keys_below, self._objects, prefix):
            if key.encode() > start_after.encode():
                yield key

    async def create_multipart(self, key: str) -> str:
        """Begin an upload."""
        return await self._threads.run(self._multiparts.create, keys.checked(key))

    async def upload_part(self, key: str, upload: str, number: int, body: Body) -> str:
        """Store the part, durably."""
        return await self._threads.run(self._multiparts.write, key, upload, number, body)

    async def list_parts(self, key: str, upload: str) -> Sequence[PartInfo]:
        """Return the parts stored so far."""
        return await self._threads.run(self._multiparts.parts, key, upload)

    async def complete_multipart(self, key: str, upload: str, parts: Sequence[PartInfo]) -> str:
        """Make the object; nothing is copied when the parts were written in place."""
        return await self._threads.run(self._multiparts.complete, key, upload, parts)

    async def abort_multipart(self, key: str, upload: str) -> None:
        """Remove the upload."""
        await self._threads.run(self._multiparts.abort, key, upload)

    async def list_multiparts(self, prefix: str) -> Sequence[tuple[str, str]]:
        """Return the unfinished uploads."""
        return await self._threads.run(self._multiparts.unfinished, prefix)

    async def close(self) -> None:
        """Wait for calls at work, close files, remove our unfinished ones."""
        await self._threads.close()
        self._multiparts.close()
        self._scratch.close()

    def _path(self, key: str) -> Path:
        return self._objects / relative_path(key)
