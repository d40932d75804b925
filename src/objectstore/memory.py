"""The object store in a process's memory: for tests, and the plainest statement of the port's semantics."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from objectstore import keys
from objectstore.port import (
    InvalidPart,
    InvalidRange,
    NoSuchKey,
    ObjectInfo,
    ObjectStore,
    PartInfo,
    PreconditionFailed,
    StoredObject,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

Body = bytes | bytearray | memoryview


class MemoryStore(ObjectStore):
    """Objects in a dictionary; every call gives other tasks a turn before it takes effect, like a request."""

    def __init__(self) -> None:
        self._objects: dict[str, StoredObject] = {}
        self._uploads: dict[str, tuple[str, dict[int, StoredObject]]] = {}

    async def get(self, key: str) -> StoredObject:
        """Return the object."""
        await asyncio.sleep(0)
        return self._existing(key)

    async def head(self, key: str) -> ObjectInfo:
        """Return size and ETag."""
        await asyncio.sleep(0)
        found = self._existing(key)
        return ObjectInfo(len(found.body), found.etag)

    async def read(
        self, key: str, start: int = 0, length: int | None = None, *, chunk: int = 1 << 20
    ) -> AsyncGenerator[memoryview, None]:
        """Yield the range in pieces."""
        await asyncio.sleep(0)
        body = memoryview(self._existing(key).body)
        if start and start >= len(body):
            raise InvalidRange(f"{key} has {len(body)} bytes, none from {start} on")
        end = len(body) if length is None else min(start + length, len(body))
        for offset in range(start, end, chunk):
            yield body[offset : min(offset + chunk, end)]
            await asyncio.sleep(0)

    async def put(
        self,
        key: str,
        body: Body,
        *,
        if_match: str | None = None,
        if_none_match: bool = False,
    ) -> str:
        """Store the object when the condition holds."""
        stored = StoredObject(bytes(body), secrets.token_hex(16))
        await asyncio.sleep(0)
        found = self._objects.get(keys.checked(key))
        if if_match is not None and (found is None or found.etag != if_match):
            raise PreconditionFailed(f"{key} is not at the ETag that was read")
        if if_none_match and found is not None:
            raise PreconditionFailed(f"{key} exists already")
        self._objects[key] = stored
        return stored.etag

    async def delete(self, key: str) -> None:
        """Forget the object."""
        await asyncio.sleep(0)
        self._objects.pop(keys.checked(key), None)

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[str]:
        """Yield the keys that exist now, in byte order."""
        await asyncio.sleep(0)
        found = [key for key in self._objects if key.startswith(prefix)]
        for key in sorted(found, key=str.encode):
            if key.encode() > start_after.encode():
                yield key

    async def create_multipart(self, key: str) -> str:
        """Begin an upload."""
        await asyncio.sleep(0)
        upload = secrets.token_hex(16)
        self._uploads[upload] = (keys.checked(key), {})
        return upload

    async def upload_part(self, key: str, upload: str, number: int, body: Body) -> str:
        """Keep the part."""
        part = StoredObject(bytes(body), secrets.token_hex(16))
        await asyncio.sleep(0)
        self._parts(key, upload)[number] = part
        return part.etag

    async def list_parts(self, key: str, upload: str) -> Sequence[PartInfo]:
        """Return the parts kept so far."""
        await asyncio.sleep(0)
        parts = self._parts(key, upload)
        return [PartInfo(number, len(parts[number].body), parts[number].etag) for number in sorted(parts)]

    async def complete_multipart(self, key: str, upload: str, parts: Sequence[PartInfo]) -> str:
        """Join the named parts into the object."""
        await asyncio.sleep(0)
        kept = self._parts(key, upload)
        named = [kept.get(part.number) for part in parts]
        for part, found in zip(parts, named, strict=True):
            if found is None or found.etag != part.etag:
                raise InvalidPart(f"part {part.number} of {key} is not the one that is stored")
        joined = StoredObject(b"".join(part.body for part in named if part), secrets.token_hex(16))
        self._objects[key] = joined
        del self._uploads[upload]
        return joined.etag

    async def abort_multipart(self, key: str, upload: str) -> None:
        """Forget the upload."""
        await asyncio.sleep(0)
        if upload in self._uploads and self._uploads[upload][0] == key:
            del self._uploads[upload]

    async def list_multiparts(self, prefix: str) -> Sequence[tuple[str, str]]:
        """Return the unfinished uploads."""
        await asyncio.sleep(0)
        return [(key, upload) for upload, (key, _) in self._uploads.items() if key.startswith(prefix)]

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _existing(self, key: str) -> StoredObject:
        try:
            return self._objects[keys.checked(key)]
        except KeyError:
            raise NoSuchKey(f"{key} does not exist") from None

    def _parts(self, key: str, upload: str) -> dict[int, StoredObject]:
        owner, parts = self._uploads.get(upload, ("", {}))
        if owner != keys.checked(key):
            raise NoSuchKey(f"multipart upload {upload} of {key} does not exist")
        return parts
