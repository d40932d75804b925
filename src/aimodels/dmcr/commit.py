"""From "all bytes are here" to 201: complete, seal, pointer, done (4.2.4 to 4.2.8).

What belongs here: the order of these steps and what each failure leaves. What does not: bytes on their way
(``ingest``), the pointer's contents (``blobs``).

Sealing is what allows the pointer write, and every retry of it reads the pointer and seals again. A client
that lost the answer closes the upload once more: the steps that are done already answer the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from msgspec.structs import replace

from aimodels.dmcr import hashing
from aimodels.dmcr.blobs import WELL_KNOWN, BytesGone, Claim
from aimodels.dmcr.ingest import standing
from aimodels.dmcr.layout import data_key, tail_key
from aimodels.dmcr.problems import Invalid, RangeRefused, TryAgain
from aimodels.dmcr.sessions import unknown
from objectstore.port import InvalidPart, NoSuchKey, ObjectStoreError, PartInfo, StoreUnavailable

if TYPE_CHECKING:
    from aimodels.dmcr.blobs import Blobs
    from aimodels.dmcr.flight import Engine
    from aimodels.dmcr.ingest import Ingest
    from aimodels.dmcr.layout import Session
    from aimodels.dmcr.sessions import Upload

_ROUNDS = 20
_READ_CHUNK = 4 << 20


class Committer:
    """Closes uploads."""

    def __init__(self, engine: Engine, blobs: Blobs) -> None:
        self._engine = engine
        self._blobs = blobs

    async def close(self, ingest: Ingest, digest: str) -> None:
        """Make the upload the blob ``digest``, or refuse: 400 leaves the upload as its journal says."""
        await ingest.drain()
        computed = await ingest.flight.digest(ingest.rest)
        if computed is not None and computed.partition(":")[0] == digest.partition(":")[0]:
            if computed != digest:
                raise _mismatch(digest, computed)
        else:
            computed = None
        if not ingest.session.parts and bytes(ingest.rest[:3]) == WELL_KNOWN.get(digest):
            await self._engine.sessions.void(ingest.upload)
            return
        size = await ingest.store_rest(computed)
        upload = ingest.upload
        if upload.session.parts:
            await self._complete(upload, size)
        if computed is None:
            await self._verify(upload, digest)
        await self.publish(upload, digest, size, tailed=ingest.tailed)

    async def digest_so_far(self, upload: Upload) -> str | None:
        """Return the digest of the durable bytes; None when its state was not saved."""
        session = upload.session
        if session.digest is not None:
            return session.digest
        for algorithm, state in session.hash.items():
            running = hashing.resume(algorithm, state)
            if running is not None and await self._add_tail(upload, running):
                return running.digest()
        return None

    async def publish(self, upload: Upload, digest: str, size: int, *, tailed: bool = False) -> None:
        """Seal, write the pointer, finish: for an upload whose bytes are whole and checked.

        A sealed session names no tail any more, so its object may go while the last swap is on its way.
        """
        session = upload.session
        if session.data is None:
            raise AssertionError("an upload with bytes was begun")
        claim = Claim(life=session.life, repo=session.repo, dkey=session.data, size=size)
        for _ in range(_ROUNDS):
            held = await self._blobs.load(digest)
            sealed = replace(upload.session, state="sealed", digest=digest, offset=size, tail=None)
            upload = await self._engine.sessions.write(upload, sealed)
            try:
                if await self._blobs.claim(held, digest, claim):
                    break
            except BytesGone:
                await self._engine.sessions.write(upload, replace(upload.session, state="cancelled"))
                raise TryAgain(f"the bytes of this upload of {digest} are gone: upload it again") from None
        else:
            raise TryAgain(f"the pointer of {digest} changes faster than it can be changed here: try again")
        done = self._engine.sessions.write(upload, replace(upload.session, state="done"))
        await asyncio.gather(done, *([self._drop_tail(upload)] if tailed else []))

    async def _drop_tail(self, upload: Upload) -> None:
        """Remove the tail's object; what stays goes with the session's record one day."""
        with contextlib.suppress(ObjectStoreError):
            await self._engine.store.delete(tail_key(upload.sid))

    async def _complete(self, upload: Upload, size: int) -> None:
        """Join the parts; an answer that did not come, or came earlier, is decided by HEAD."""
        session = upload.session
        key = data_key(session.data or "")
        named = [PartInfo(number=part.n, size=part.size, etag=part.etag) for part in session.parts]
        try:
            await self._engine.store.complete_multipart(key, session.upload or "", named)
        except InvalidPart:
            await self._go_back(upload)
        except (NoSuchKey, StoreUnavailable):
            pass
        try:
            info = await self._engine.store.head(key)
        except NoSuchKey:
            raise TryAgain("the store has not joined the parts of this upload: close it again") from None
        if info.size != size:
            raise TryAgain(f"the store holds {info.size} of {size} bytes of this upload: close it again")

    async def _go_back(self, upload: Upload) -> None:
        """Cut the journal before the first part that an older attempt overwrote: it is sent again."""
        session = upload.session
        stored = await self._engine.store.list_parts(data_key(session.data or ""), session.upload or "")
        etags = {part.number: part.etag for part in stored}
        good = 0
        while good < len(session.parts) and etags.get(good + 1) == session.parts[good].etag:
            good += 1
        parts = session.parts[:good]
        offset = sum(part.size for part in parts)
        shorter = replace(session, parts=parts, offset=offset, tail=None, hash={}, digest=None)
        await self._engine.sessions.write(upload, shorter)
        raise RangeRefused(
            f"part {good + 1} was overwritten by an older attempt: continue at {offset}",
            headers=standing(offset),
        )

    async def _verify(self, upload: Upload, digest: str) -> None:
        """Read the bytes back where the running digest was lost or is of another kind."""
        running = hashing.start(digest.partition(":")[0])
        await self._read_into(running, data_key(upload.session.data or ""))
        if running.digest() != digest:
            await self._engine.sessions.void(upload)
            raise _mismatch(digest, running.digest())

    async def _add_tail(self, upload: Upload, running: hashing.RunningHash) -> bool:
        """Add the bytes after the last whole part; False when they are not the ones that are named."""
        tail, key = upload.session.tail, tail_key(upload.sid)
        if tail is None:
            return True
        try:
            before = await self._engine.store.head(key)
            await self._read_into(running, key)
            after = await self._engine.store.head(key)
        except NoSuchKey:
            return False
        return before.etag == after.etag == tail.etag

    async def _read_into(self, running: hashing.RunningHash, key: str) -> None:
        loop = asyncio.get_running_loop()
        async for piece in self._engine.store.read(key, chunk=_READ_CHUNK):
            await loop.run_in_executor(self._engine.threads, running.update, piece)


def committed(session: Session, digest: str) -> bool:
    """Tell whether the upload is this very blob already; 404 when it is another one."""
    if session.state not in ("sealed", "done"):
        return False
    if session.digest != digest:
        raise unknown()
    return True


def _mismatch(named: str, computed: str) -> Invalid:
    return Invalid(
        f"the bytes are {computed}, not {named}: send the right bytes or the right digest",
        detail={"named": named, "computed": computed},
    )
