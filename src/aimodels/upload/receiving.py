"""Receiving one file: from the request's body into an upload session of the registry, then committed.

What belongs here: the order of steps. What does not: HTTP answers (``app``), who may (``access``).

The registry is the journal: the session of the resume key tells how much is stored, and opening it takes it
over from whoever wrote before. Nothing of it is kept here, except which bodies are being read now.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from aimodels.upload.refusals import (
    Reason,
    already_received,
    being_taken_over,
    invalid,
    is_lost,
    offset_mismatch,
)
from modelio.registry import MANIFEST_MEDIA_TYPE, NotFound, RegistryError, RegistryUnavailable, WrongLength
from modelkit import modelpack
from modelkit.errors import NotAModel, NotServed
from modelkit.formats import detect
from opskit import metrics

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from aimodels.upload.access import Access
    from aimodels.upload.body import Body
    from aimodels.upload.ranges import Piece
    from modelio.registry import UploadSession

UPLOAD_TAG = "upload"
ARTIFACT_TYPE = "application/vnd.deckhouse.ai-models.upload.v1+json"
#: An upload that moved within so many seconds is alive: asking for its offset does not disturb it.
LIVE_SECONDS = 3.0

_RECEIVED = metrics.counter("upload_received_bytes", "Bytes of uploads that arrived at the gateway.")
_RUNNING = metrics.gauge("upload_running", "Uploads whose body is being received now.")


class Receipt(msgspec.Struct, frozen=True, rename="camel"):
    """What was received: the digest of the whole file and its size."""

    digest: str
    size_bytes: int


class Standing(msgspec.Struct, frozen=True):
    """How far an upload is; the digest is of exactly these bytes, when the registry tells it."""

    offset: int
    digest: str | None


class Receiver:
    """All uploads of this process."""

    def __init__(self) -> None:
        self._running: dict[str, dict[Body, UploadSession]] = defaultdict(dict)

    async def standing(self, access: Access) -> Standing:
        """Return how far the upload is: by looking on while it moves, else by taking it over."""
        await self.refuse_received(access)
        upload = self._moving(access.session)
        try:
            if upload is None:
                upload = await access.client.open_upload(access.repository, access.session)
            await upload.refresh()
        except RegistryError as error:
            if not is_lost(error):
                raise
            raise being_taken_over() from error
        return Standing(upload.offset, upload.digest_so_far)

    async def receive(
        self, access: Access, body: Body, *, filename: str | None, length: int | None
    ) -> Receipt:
        """Receive a whole file from its first byte; what was there before of another try is dropped."""
        await self.refuse_received(access)
        await self.check(filename, body)
        upload = await access.client.open_upload(access.repository, access.session, length)
        if upload.offset:
            upload = await access.client.open_upload(access.repository, access.session, length, restart=True)
        await self.pour(access, upload, body, length)
        return await self.commit(access, upload, filename)

    async def resume(
        self, access: Access, body: Body, piece: Piece, *, filename: str | None
    ) -> Receipt | Standing:
        """Receive bytes that follow those that are here; the receipt comes with the last of them."""
        await self.refuse_received(access)
        if piece.first == 0:
            if piece.length < detect.HEAD and not piece.last_one:
                raise invalid(
                    "the first piece is too short to tell whether this is a model",
                    f"send at least {detect.HEAD} bytes in it",
                )
            await self.check(filename, body)
        upload = await access.client.open_upload(access.repository, access.session, piece.total)
        begins = piece.total if piece.first is None else piece.first
        if begins != upload.offset:
            raise offset_mismatch(upload.offset, begins or 0)
        if piece.length:
            await self.pour(access, upload, body, piece.length)
        if not piece.last_one:
            return Standing(upload.offset, None)
        return await self.commit(access, upload, filename)

    async def commit(self, access: Access, upload: UploadSession, filename: str | None) -> Receipt:
        """Close the session with the digest of what it has, and tag the blob; repeatable."""
        await upload.refresh()
        if upload.digest_so_far is None:
            raise RegistryUnavailable("the registry does not tell the digest of what it received")
        receipt = Receipt(upload.digest_so_far, upload.offset)
        await upload.close(receipt.digest)
        await access.client.put_manifest(
            access.repository, UPLOAD_TAG, MANIFEST_MEDIA_TYPE, await _manifest(access, receipt, filename)
        )
        return receipt

    async def refuse_received(self, access: Access) -> None:
        """Refuse when the file is here already."""
        try:
            await access.client.get_manifest(access.repository, UPLOAD_TAG)
        except NotFound:
            return
        raise already_received()

    def stop(self) -> None:
        """End every body that is being read; what was received stays."""
        for bodies in self._running.values():
            for body in bodies:
                body.stop()

    async def pour(self, access: Access, upload: UploadSession, body: Body, length: int | None) -> int:
        """Send a body's bytes to the registry and return the new offset; BodyCut when it ends early."""
        with self._reading(access.session, body, upload):
            try:
                return await upload.send(_counted(body), length=length)
            except WrongLength as error:
                raise invalid(
                    "the body is longer or shorter than the headers say",
                    "ask for Upload-Offset by HEAD and continue there",
                ) from error

    async def check(self, filename: str | None, body: Body) -> None:
        """Refuse as soon as the first bytes show that this is no model; nothing of the upload is touched."""
        head_container(filename, await body.head(detect.HEAD))

    @contextmanager
    def _reading(self, session: str, body: Body, upload: UploadSession) -> Iterator[None]:
        self._running[session][body] = upload
        with _RUNNING.track_inprogress():
            try:
                yield
            finally:
                del self._running[session][body]
                if not self._running[session]:
                    del self._running[session]

    def _moving(self, session: str) -> UploadSession | None:
        now = asyncio.get_running_loop().time()
        for body, upload in reversed(self._running.get(session, {}).items()):
            if now - body.moved < LIVE_SECONDS:
                return upload
        return None


def head_container(filename: str | None, head: bytes) -> str:
    """Return which form of a model begins with these bytes; Problem 400 when it is none that is taken."""
    try:
        return detect.serve(filename, head)
    except NotServed as error:
        raise invalid(str(error), "pack the same files as a plain .tar", Reason.NOT_SERVED) from error
    except NotAModel as error:
        next_step = "send a .gguf file, or a .tar with the files of one model; the upload stays open"
        raise invalid(str(error), next_step, Reason.NOT_A_MODEL) from error


async def _counted(body: Body) -> AsyncGenerator[bytes, None]:
    async for piece in body.pieces():
        _RECEIVED.inc(len(piece))
        yield piece


async def _manifest(access: Access, receipt: Receipt, filename: str | None) -> bytes:
    empty = await access.client.push_blob(access.repository, b"{}")
    annotations = {"annotations": {modelpack.FILEPATH: filename}} if filename else {}
    return modelpack.canonical(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_MEDIA_TYPE,
            "artifactType": ARTIFACT_TYPE,
            "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": empty, "size": 2},
            "layers": [
                {
                    "mediaType": "application/octet-stream",
                    "digest": receipt.digest,
                    "size": receipt.size_bytes,
                    **annotations,
                }
            ],
        }
    )
