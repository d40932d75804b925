"""Uploads on the wire: POST, PATCH, PUT, GET and DELETE of sessions, and mounts.

What belongs here: reading these requests, pouring their bodies into an ingest, answering. What does not: the
states of a session and the steps of a commit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aimodels.dmcr import hashing, names, parts
from aimodels.dmcr.blobs import WELL_KNOWN
from aimodels.dmcr.commit import committed
from aimodels.dmcr.ingest import Ingest, standing
from aimodels.dmcr.problems import Conflict, Invalid, RangeRefused, RegistryProblem, Unsupported
from aimodels.dmcr.sessions import Opening, Upload, superseded, unknown
from aimodels.dmcr.wire import Answer, Cut

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aimodels.dmcr.layout import Record
    from aimodels.dmcr.registry import Registry
    from aimodels.dmcr.turns import Turn
    from aimodels.dmcr.wire import Request

_CONTENT_RANGE = re.compile(r"(?:bytes )?(\d{1,19})-(\d{1,19})(?:/(?:\d{1,19}|\*))?\Z")
_LOCATION = re.compile(r"([0-9a-f]{32})\.(\d{1,9})\Z")
_RESUME_KEY = re.compile(r"[\x21-\x7e]{1,512}\Z")
#: smaller chunks are taken too, but each costs a write of everything after the last whole part
_CHUNK_MIN = 5 << 20
_MOST_BYTES = 10_000 * (5 << 30)


class UploadRoutes:
    """Handlers for ``/v2/<name>/blobs/uploads/``."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def post(self, request: Request, name: str, _: str) -> Answer:
        """Mount, or push in one request, or open a session, perhaps one that was begun before."""
        record = await self._registry.created(request, name)
        mount = request.parameter("mount")
        if mount is not None and await self._mounted(request, record, names.digest(mount)):
            return _created(name, mount)
        digest = request.parameter("digest")
        if digest is not None:
            names.digest(digest)
        upload = await self._registry.sessions.open(record, self._opening(request, digest))
        if upload.session.offset:
            self._registry.meter.resumed(request.principal, upload.sid, upload.session.offset)
        if digest is None:
            return _accepted(202, name, upload)
        async with self._registry.sessions.turns.take(upload.sid) as turn:
            await self._finish(request, record, upload, turn, digest)
        return _created(name, digest)

    async def patch(self, request: Request, name: str, location: str) -> Answer:
        """Take a chunk, or a stream; the answer's offset is durable."""

        async def settle(ingest: Ingest) -> None:
            await ingest.settle()

        sid, attempt = _session(location)
        record = await self._registry.pushable(request, name)
        async with self._registry.sessions.turns.take(sid) as turn:
            upload = await self._registry.sessions.find(sid, attempt, record)
            if upload.session.state not in ("new", "open"):
                raise Conflict("this upload is received and being committed: close it")
            ingest = await self._poured(request, upload, turn, settle)
        return _accepted(202, name, ingest.upload)

    async def put(self, request: Request, name: str, location: str) -> Answer:
        """Take the last bytes, if any, and make the upload the blob that the digest names."""
        digest = names.digest(request.parameter("digest") or "")
        sid, attempt = _session(location)
        record = await self._registry.pushable(request, name)
        async with self._registry.sessions.turns.take(sid) as turn:
            upload = await self._registry.sessions.find(sid, attempt, record)
            await self._finish(request, record, upload, turn, digest)
        return _created(name, digest)

    async def get(self, request: Request, name: str, location: str) -> Answer:
        """Tell how far the upload is, and the digest of that where it is cheap to know."""
        sid, attempt = _session(location)
        record = await self._registry.pushable(request, name)
        upload = await self._registry.sessions.find(sid, attempt, record)
        answer = _accepted(204, name, upload)
        digest = await self._registry.committer.digest_so_far(upload)
        return Answer(204, {**answer.headers, "Dmcr-Digest": digest}) if digest else answer

    async def delete(self, request: Request, name: str, location: str) -> Answer:
        """Cancel the upload."""
        sid, attempt = _session(location)
        record = await self._registry.pushable(request, name)
        async with self._registry.sessions.turns.take(sid):
            upload = await self._registry.sessions.find(sid, attempt, record)
            if not await self._registry.sessions.void(upload):
                raise superseded(None)
        return Answer(204)

    async def _mounted(self, request: Request, target: Record, digest: str) -> bool:
        """Let the repository have a blob that the caller may read elsewhere; False when that cannot be."""
        if digest in WELL_KNOWN:
            return True
        source = request.parameter("from")
        held = await self._registry.blobs.load(digest)
        if held is None:
            return False
        readers = {reader.repo: life for life, reader in held.value.repos.items()}
        for name in [names.repository(source)] if source else sorted(readers):
            access = request.principal.right(name, "pull")
            if access is None or name not in readers or access.life not in (None, readers[name]):
                continue
            record = await self._registry.repositories.get(name)
            if record is None or record.state != "open":
                continue
            if access.digest and digest not in await self._registry.manifests.closure(record, access.digest):
                continue
            if await self._registry.blobs.mount(digest, record, target) is not None:
                return True
        return False

    def _opening(self, request: Request, digest: str | None) -> Opening:
        key = request.headers.get("dmcr-resume-key", "")
        if key and not _RESUME_KEY.match(key):
            raise Invalid("Dmcr-Resume-Key has 1 to 512 visible characters", code="BLOB_UPLOAD_INVALID")
        algorithm = request.parameter("digest-algorithm") or (digest or "sha256").partition(":")[0]
        if algorithm not in hashing.ALGORITHMS:
            raise Unsupported(f"digests are sha256 or sha512, not {algorithm}", status=400)
        length = request.number("dmcr-length")
        if length is None and digest is not None:
            length = request.length
        return Opening(
            key=key,
            restart=request.headers.get("dmcr-restart", "").lower() == "true",
            plan=self._plan(length) if length is not None else (),
            algorithm=algorithm,
            transfer=request.principal.transfer,
        )

    def _plan(self, length: int | None) -> parts.Plan:
        if length is not None and length > _MOST_BYTES:
            raise Invalid(f"a blob has at most {_MOST_BYTES} bytes", status=413, code="SIZE_INVALID")
        plan = parts.plan_for(length, uniform=self._registry.uniform_parts)
        size, most = parts.part_size(plan, 1) or 0, max(self._registry.engine.buffers.budget, parts.LARGEST)
        if size > most:
            raise Invalid(
                f"{length} bytes go in parts of {size}, and there is memory for parts of {most}: "
                "send a smaller file, or give the registry more memory",
                status=413,
                code="SIZE_INVALID",
            )
        return plan

    async def _finish(
        self, request: Request, record: Record, upload: Upload, turn: Turn, digest: str
    ) -> None:
        """Take the rest of the bytes and commit, or what is left of that after an answer that was lost."""
        if not committed(upload.session, digest):
            await self._close(request, upload, turn, digest)
        elif upload.session.state == "sealed":
            await self._registry.committer.publish(upload, digest, upload.session.offset)
        else:
            await self._registry.blobs.lease(digest, record)

    async def _close(self, request: Request, upload: Upload, turn: Turn, digest: str) -> None:
        """Take the rest of the bytes and commit."""

        async def commit(ingest: Ingest) -> None:
            await self._registry.committer.close(ingest, digest)

        whole = request.length if upload.session.state == "new" else None
        await self._poured(request, upload, turn, commit, length=whole, algorithm=digest.partition(":")[0])

    async def _poured(
        self,
        request: Request,
        upload: Upload,
        turn: Turn,
        end: Callable[[Ingest], Awaitable[None]],
        *,
        length: int | None = None,
        algorithm: str = "sha256",
    ) -> Ingest:
        """Pour the body into the upload, then ``end`` it; a body cut short is kept as far as it came."""
        _in_order(request, upload.session.offset)
        ingest = Ingest(
            self._registry.engine,
            upload,
            account=request.principal.transfer or "",
            plan=self._plan(length),
            algorithm=algorithm,
            expected=request.length if "transfer-encoding" not in request.headers else None,
            journaled=lambda at: self._registry.meter.journaled(request.principal, upload.sid, at),
        )
        try:
            await ingest.start()
            _in_order(request, ingest.offset)
            try:
                await self._pour(request, ingest, turn)
            except (Cut, TimeoutError):
                await ingest.settle(cut=True)
                raise
            await end(ingest)
        except TimeoutError:
            if turn.stopped:
                raise superseded(None) from None
            raise _idle(ingest.offset, self._registry.idle_seconds) from None
        finally:
            await ingest.release()
        return ingest

    async def _pour(self, request: Request, ingest: Ingest, turn: Turn) -> None:
        meter, principal = self._registry.meter, request.principal
        async with turn.reading(self._registry.idle_seconds) as patience:
            while True:
                patience.begin()
                body = await request.message()
                patience.end()
                if body is None:
                    return
                meter.received(principal, len(body))
                await ingest.write(body)


def _session(location: str) -> tuple[str, int]:
    match = _LOCATION.match(location)
    if match is None:
        raise unknown()
    return match[1], int(match[2])


def _in_order(request: Request, offset: int) -> None:
    """Refuse a chunk that does not begin where the upload stands; the upload stays usable."""
    text = request.headers.get("content-range")
    if text is None:
        return
    match = _CONTENT_RANGE.match(text)
    if match is None:
        raise Invalid("Content-Range is <first>-<last>", code="BLOB_UPLOAD_INVALID")
    first, last = int(match[1]), int(match[2])
    if first != offset:
        raise RangeRefused(f"the upload stands at {offset}: continue there", headers=standing(offset))
    if request.length is not None and last - first + 1 != request.length:
        raise Invalid(
            "Content-Range and Content-Length differ",
            status=416,
            code="SIZE_INVALID",
            headers=standing(offset),
        )


def _accepted(status: int, name: str, upload: Upload) -> Answer:
    session = upload.session
    return Answer(
        status,
        {
            "Location": f"/v2/{name}/blobs/uploads/{upload.sid}.{session.attempt}",
            "Docker-Upload-UUID": upload.sid,
            "Dmcr-Attempt": str(session.attempt),
            "OCI-Chunk-Min-Length": str(_CHUNK_MIN),
            **standing(session.offset),
        },
    )


def _created(name: str, digest: str) -> Answer:
    return Answer(201, {"Location": f"/v2/{name}/blobs/{digest}", "Docker-Content-Digest": digest})


def _idle(offset: int, seconds: float) -> RegistryProblem:
    return RegistryProblem(
        f"nothing came for {seconds:.0f} s: continue at {offset}",
        status=408,
        code="BLOB_UPLOAD_INVALID",
        headers=standing(offset),
    )
