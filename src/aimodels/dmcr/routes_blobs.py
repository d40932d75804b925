"""Blobs on the wire: HEAD, GET with ranges, DELETE."""

from __future__ import annotations

import re
from contextlib import aclosing
from typing import TYPE_CHECKING

from aimodels.dmcr import names
from aimodels.dmcr.blobs import WELL_KNOWN, unknown
from aimodels.dmcr.layout import data_key
from aimodels.dmcr.problems import Invalid, RangeRefused
from aimodels.dmcr.wire import Answer
from objectstore.port import NoSuchKey, ObjectStoreError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from aimodels.dmcr.layout import Pointer, Record
    from aimodels.dmcr.principal import Access
    from aimodels.dmcr.registry import Registry
    from aimodels.dmcr.wire import Request

_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})\Z")
#: larger messages cost a little less CPU per byte; the server holds up to six for a reader that stalls
_CHUNK = 1 << 20
_BINARY = "application/octet-stream"


class BlobRoutes:
    """Handlers for ``/v2/<name>/blobs/<digest>``."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def head(self, request: Request, name: str, reference: str) -> Answer:
        """Tell size and presence; to a pusher it promises that the blob stays for a while."""
        digest = names.digest(reference)
        record, access = await self._registry.readable(request, name)
        if digest in WELL_KNOWN:
            size = len(WELL_KNOWN[digest])
        elif request.writable and request.principal.may(name, "push"):
            size = (await self._registry.blobs.lease(digest, record)).size
        else:
            pointer = await self._authorised(digest, record, access)
            if not await self._registry.blobs.has(pointer):
                raise unknown(digest, name)
            size = pointer.size
        return Answer(200, {**_headers(digest), "Content-Length": str(size)})

    async def get(self, request: Request, name: str, reference: str) -> Answer:
        """Send the blob or the one range asked for."""
        digest = names.digest(reference)
        record, access = await self._registry.readable(request, name)
        if f'"{digest}"' in request.headers.get("if-none-match", ""):
            return Answer(304, _headers(digest))
        if digest in WELL_KNOWN:
            body = WELL_KNOWN[digest]
            start, end = wanted(request, digest, len(body))
            return Answer(
                _status(start, end, len(body)), _span(digest, start, end, len(body)), body[start:end]
            )
        pointer = await self._authorised(digest, record, access)
        start, end = wanted(request, digest, pointer.size)
        pieces = self._pieces(request, digest, pointer, start, end)
        try:
            first = await anext(pieces)
        except (NoSuchKey, StopAsyncIteration):
            raise unknown(digest, name) from None
        headers = _span(digest, start, end, pointer.size)
        return Answer(_status(start, end, pointer.size), headers, _joined(first, pieces))

    async def delete(self, request: Request, name: str, reference: str) -> Answer:
        """Take the blob out of the repository."""
        digest = names.digest(reference)
        record = await self._registry.deletable(request, name)
        if digest in WELL_KNOWN:
            raise Invalid("this content is part of every repository", status=405, code="UNSUPPORTED")
        await self._registry.manifests.delete_blob(record, digest)
        return Answer(202)

    async def _authorised(self, digest: str, record: Record, access: Access) -> Pointer:
        pointer = await self._registry.blobs.readable(digest, record)
        if access.digest is not None and digest not in await self._registry.manifests.closure(
            record, access.digest
        ):
            raise unknown(digest, record.name)
        return pointer

    async def _pieces(
        self, request: Request, digest: str, pointer: Pointer, start: int, end: int
    ) -> AsyncGenerator[bytes]:
        """Read and count; when the bytes vanish meanwhile the body ends short, which every client notices."""
        at = start
        source = self._registry.store.read(data_key(pointer.data or ""), start, end - start, chunk=_CHUNK)
        async with aclosing(source):
            async for piece in source:
                body = whole(piece)
                yield body
                self._registry.meter.delivered(request.principal, digest, at, at + len(body))
                at += len(body)
        if at != end:
            raise ObjectStoreError(f"{digest} ended at {at} instead of {end}")


def wanted(request: Request, digest: str, size: int) -> tuple[int, int]:
    """Return ``[start, end)``; several ranges, or a range of something else, mean the whole blob."""
    condition = request.headers.get("if-range")
    match = _RANGE.match(request.headers.get("range", ""))
    if match is None or (condition is not None and condition != f'"{digest}"'):
        return 0, size
    first, last = match.groups()
    if first:
        start, end = int(first), min(int(last) + 1, size) if last else size
    elif last:
        start, end = max(size - int(last), 0), size
    else:
        return 0, size
    if start >= end:
        raise RangeRefused(
            f"the blob has {size} bytes: ask for a range within", headers={"Content-Range": f"bytes */{size}"}
        )
    return start, end


def whole(piece: memoryview) -> bytes:
    """Return the piece as bytes, without a copy where it is a bytes object of its own."""
    if isinstance(piece.obj, bytes) and piece.nbytes == len(piece.obj):
        return piece.obj
    return bytes(piece)


async def _joined(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(rest):
        yield first
        async for piece in rest:
            yield piece


def _status(start: int, end: int, size: int) -> int:
    return 200 if end - start == size else 206


def _headers(digest: str) -> dict[str, str]:
    return {
        "Accept-Ranges": "bytes",
        "Content-Type": _BINARY,
        "Docker-Content-Digest": digest,
        "ETag": f'"{digest}"',
    }


def _span(digest: str, start: int, end: int, size: int) -> dict[str, str]:
    headers = {**_headers(digest), "Content-Length": str(end - start)}
    if end - start != size:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return headers
