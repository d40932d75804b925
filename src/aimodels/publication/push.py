"""A layer's bytes from the upload into a blob of its own, continued where an earlier attempt ended."""

from __future__ import annotations

import hashlib
import time
from contextlib import aclosing
from typing import TYPE_CHECKING

from aimodels.jobs.worker import Interrupted
from modelio.registry import DigestMismatch
from modelkit.modelpack import Layer
from opskit.logging import logger

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from aimodels.publication.plan import PlannedLayer
    from aimodels.publication.received import Received
    from modelio.registry import RegistryClient, UploadSession

#: a file is read in ranges of this size, several of them on their way at once
_RANGE = 4 << 20
_READERS = 3
_log = logger(__name__)


class Hashing:
    """SHA-256 of a stream that may be begun again further back, but not further ahead."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.position = 0
        self._whole = True

    def feed(self, offset: int, piece: bytes) -> None:
        """Take the bytes that begin at ``offset``; what was hashed before is passed over."""
        if offset > self.position:
            self._whole = False
        if self._whole and offset + len(piece) > self.position:
            self._hash.update(memoryview(piece)[self.position - offset :])
            self.position = offset + len(piece)

    def digest(self, size: int) -> str | None:
        """Return the digest, nothing when the stream was not seen from its begin to its end."""
        return f"sha256:{self._hash.hexdigest()}" if self._whole and self.position == size else None


class Pusher:
    """Stores planned layers in one repository."""

    def __init__(self, client: RegistryClient, repository: str, received: Received, owner: str) -> None:
        self._client = client
        self._repository = repository
        self._received = received
        self._owner = owner

    async def push(self, planned: PlannedLayer) -> Layer:
        """Store a layer and return it with its digest; what is stored already is not sent again."""
        began = time.monotonic()
        key = planned.resume_key(self._owner, self._received.digest)
        session = await self._client.open_upload(self._repository, key, planned.size)
        resumed = session.offset
        try:
            digest = await self._fill(session, planned)
        except DigestMismatch as error:
            _log.warning("stored bytes are not the source's, sent again", path=planned.path, err=error)
            session = await self._client.open_upload(self._repository, key, planned.size, restart=True)
            resumed, digest = 0, await self._fill(session, planned)
        _log.info(
            "layer stored",
            path=planned.path,
            digest=digest,
            bytes=planned.size,
            resumed_at=resumed,
            attempt=session.attempt,
            duration_ms=round((time.monotonic() - began) * 1000),
        )
        return Layer(planned.path, digest, planned.size, planned.kind, planned.encoding)

    async def _fill(self, session: UploadSession, planned: PlannedLayer) -> str:
        """Send what is missing and close the session with the digest of what was sent."""
        hashing = Hashing()
        if session.offset > planned.size:
            raise DigestMismatch(f"{session.offset} bytes are stored of {planned.size}")

        def open_at(offset: int) -> AsyncGenerator[bytes, None]:
            return self._hashed(planned, offset, hashing)

        await session.send_from(open_at, length=planned.size)
        await session.refresh()
        stored = session.digest_so_far
        digest = hashing.digest(planned.size) or stored
        if digest is None:
            digest = await self._read_again(planned)
        if stored not in (None, digest):
            raise DigestMismatch(f"stored as {stored}, sent as {digest}")
        await session.close(digest)
        return digest

    async def _hashed(
        self, planned: PlannedLayer, offset: int, hashing: Hashing
    ) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._pieces(planned, offset)) as pieces:
            async for piece in pieces:
                hashing.feed(offset, piece)
                offset += len(piece)
                yield piece

    async def _pieces(self, planned: PlannedLayer, offset: int) -> AsyncGenerator[bytes, None]:
        """Yield the layer's bytes from ``offset``."""
        for segment in planned.segments:
            if offset >= segment.size:
                offset -= segment.size
                continue
            if segment.made is not None:
                yield segment.made[offset:]
            else:
                start, length = segment.start + offset, segment.size - offset
                read = self._client.read_blob_ranges(
                    self._repository,
                    self._received.digest,
                    start,
                    length,
                    readers=_READERS,
                    range_bytes=_RANGE,
                )
                async with aclosing(read) as pieces:
                    async for piece in pieces:
                        yield piece
            offset = 0

    async def _read_again(self, planned: PlannedLayer) -> str:
        """Hash the source from its begin: the registry could not tell what it has."""
        hashing = Hashing()
        async with aclosing(self._hashed(planned, 0, hashing)) as pieces:
            async for _ in pieces:
                pass
        digest = hashing.digest(planned.size)
        if digest is None:
            raise Interrupted(f"{planned.path}: the upload ended early while it was read")
        return digest
