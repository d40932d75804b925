"""Upload sessions: who may write an upload now, and how it ends without a commit (4.2.1, 4.2.2).

What belongs here: create, take over, begin, cancel. What does not: bytes (``ingest``), committing
(``commit``).

A session that was created with a resume key is found again by its deterministic id. Taking it over raises
``attempt``; whatever an older attempt still sends fails at its next swap. Finished sessions of a key are
followed by the next serial.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from aimodels.dmcr import hashing
from aimodels.dmcr.layout import HashState, Record, Session, data_key, session_id, session_key, tail_key
from aimodels.dmcr.problems import Conflict, NotFound, TryAgain
from aimodels.dmcr.swaps import Held, Lost, Swaps
from aimodels.dmcr.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aimodels.dmcr.blobs import Blobs
    from aimodels.dmcr.parts import Plan

_ROUNDS = 100
#: a bucket may hold many finished sessions: they are looked at together
_IN_PARALLEL = 32
_WRITABLE = ("new", "open")


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """What a client says when it opens an upload."""

    key: str = ""
    restart: bool = False
    plan: Plan = ()
    algorithm: str = "sha256"
    transfer: str | None = None


class Upload(msgspec.Struct, frozen=True):
    """A session with its id."""

    sid: str
    held: Held[Session]

    @property
    def session(self) -> Session:
        """Return the session as it was read or written last."""
        return self.held.value


class Sessions:
    """The sessions of one bucket."""

    def __init__(self, swaps: Swaps, blobs: Blobs) -> None:
        self.turns = Turns()
        self._swaps = swaps
        self._blobs = blobs

    async def open(self, record: Record, opening: Opening) -> Upload:
        """Return the upload to write to: a new session, or the key's newest one taken over.

        The newest one may be ``done``: then everything is received and closing it again answers the same.
        """
        if not opening.key:
            return await self._create(self._swaps.fresh(), record, opening)
        for _ in range(_ROUNDS):
            upload = await self._try_open(record, opening)
            if upload is not None:
                return upload
        raise TryAgain("other attempts keep taking this upload over: try again")

    async def find(self, sid: str, attempt: int, record: Record) -> Upload:
        """Return the session that a location names; 404 when it ended, 409 when it was taken over."""
        held = await self._swaps.load(session_key(sid), Session)
        if held is None or held.value.life != record.life or held.value.state in ("void", "cancelled"):
            raise unknown()
        if attempt != held.value.attempt:
            raise superseded(held.value.attempt)
        return Upload(sid, held)

    def begun(self, upload: Upload, *, plan: Plan, algorithm: str) -> Session | None:
        """Return what the first swap of a new session writes; None when it was begun before.

        It chooses the data key, so it comes before any byte there: a late second execution of the create
        names none.
        """
        if upload.session.state != "new":
            return None
        session = replace(upload.session, state="open", data=self._swaps.fresh())
        if not session.plan:
            session = replace(session, plan=plan)
        if algorithm not in session.hash:
            session = replace(session, hash=_empty_hash(algorithm))
        return session

    async def write(self, upload: Upload, session: Session) -> Upload:
        """Swap the session; 409 when another attempt owns it by now."""
        session = replace(session, at=self._swaps.now())
        try:
            held = await self._swaps.swap(session_key(upload.sid), upload.held, session)
        except Lost as error:
            raise superseded(None) from error
        return Upload(upload.sid, held)

    async def void(self, upload: Upload) -> bool:
        """End an upload whose bytes nobody wants; False when it was changed meanwhile."""
        session = upload.session
        if session.state not in _WRITABLE:
            raise Conflict("this upload is being committed: wait for its end")
        try:
            await self._swaps.swap(
                session_key(upload.sid), upload.held, replace(session, state="void", at=self._swaps.now())
            )
        except Lost:
            return False
        if session.upload and session.data:
            await self._swaps.store.abort_multipart(data_key(session.data), session.upload)
        if session.tail:
            await self._swaps.store.delete(tail_key(upload.sid))
        return True

    async def fence_transfer(self, transfer: str) -> None:
        """Take every open upload of a revoked transfer from its writer; what is stored waits for another."""
        await self._end_each(lambda session: _is_of(session, transfer), self._fence)

    async def void_transfer(self, transfer: str) -> None:
        """End every open upload of a revoked transfer."""
        await self._end_each(lambda session: _is_of(session, transfer), self.void)

    async def void_abandoned(self, repository: str, is_over: Callable[[str], Awaitable[bool]]) -> None:
        """End the repository's open uploads that were begun for a transfer that ``is_over``."""

        async def abandoned(session: Session) -> bool:
            ours = session.repo == repository and session.transfer is not None
            return ours and await is_over(session.transfer or "")

        await self._end_each(abandoned, self.void)

    async def _end_each(
        self, chosen: Callable[[Session], Awaitable[bool]], end: Callable[[Upload], Awaitable[bool]]
    ) -> None:
        keys = [key async for key in self._swaps.store.list("uploads/") if key.endswith(".json")]
        for at in range(0, len(keys), _IN_PARALLEL):
            ending = (self._end_one(key, chosen, end) for key in keys[at : at + _IN_PARALLEL])
            for outcome in await asyncio.gather(*ending, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome

    async def _end_one(
        self,
        key: str,
        chosen: Callable[[Session], Awaitable[bool]],
        end: Callable[[Upload], Awaitable[bool]],
    ) -> None:
        sid = key.removeprefix("uploads/").removesuffix(".json")
        for _ in range(_ROUNDS):
            held = await self._swaps.load(key, Session)
            if held is None or held.value.state not in _WRITABLE or not await chosen(held.value):
                return
            if await end(Upload(sid, held)):
                return

    async def _fence(self, upload: Upload) -> bool:
        """Raise the attempt as a take-over does, for nobody; False when the upload was changed meanwhile."""
        if await self.turns.stop(upload.sid):
            return False
        fenced = replace(upload.session, attempt=upload.session.attempt + 1, at=self._swaps.now())
        try:
            await self._swaps.swap(session_key(upload.sid), upload.held, fenced)
        except Lost:
            return False
        return True

    async def _try_open(self, record: Record, opening: Opening) -> Upload | None:
        """Walk the key's serials to the newest session and take it over, or begin the next one."""
        serial, newest = 0, None
        while True:
            sid = session_id(record.life, opening.key, serial)
            held = await self._swaps.load(session_key(sid), Session)
            if held is None:
                break
            newest = Upload(sid, held)
            serial += 1
        if newest is not None and not opening.restart:
            if newest.session.state == "done" and await self._still_there(newest.session):
                return newest
            if newest.session.state in ("new", "open", "sealed"):
                if await self.turns.stop(newest.sid):
                    return None
                return await self._take_over(newest, opening)
        if newest is not None and newest.session.state in _WRITABLE and not await self.void(newest):
            return None
        try:
            return await self._create(session_id(record.life, opening.key, serial), record, opening)
        except Lost:
            return None

    async def _still_there(self, session: Session) -> bool:
        if session.digest is None:
            return False
        return await self._blobs.usable(await self._blobs.load(session.digest), session.life)

    async def _take_over(self, upload: Upload, opening: Opening) -> Upload | None:
        session = replace(
            upload.session,
            attempt=upload.session.attempt + 1,
            transfer=opening.transfer,
            plan=_plan(upload.session, opening),
            at=self._swaps.now(),
        )
        try:
            return Upload(upload.sid, await self._swaps.swap(session_key(upload.sid), upload.held, session))
        except Lost:
            return None

    async def _create(self, sid: str, record: Record, opening: Opening) -> Upload:
        session = Session(
            life=record.life,
            repo=record.name,
            key=opening.key,
            attempt=1,
            state="new",
            at=self._swaps.now(),
            transfer=opening.transfer,
            plan=opening.plan,
            hash=_empty_hash(opening.algorithm),
        )
        return Upload(sid, await self._swaps.new(session_key(sid), session))


def _plan(session: Session, opening: Opening) -> Plan:
    """Return how an upload that is taken over is cut.

    Who only looked how far it is may have created it without a length; nothing is cut before the first byte.
    """
    return (session.state == "new" and opening.plan) or session.plan


async def _is_of(session: Session, transfer: str) -> bool:
    return session.transfer == transfer


def unknown() -> NotFound:
    """Return the refusal for an upload that is not there, or ended."""
    return NotFound("this upload does not exist or has ended: open a new one", code="BLOB_UPLOAD_UNKNOWN")


def superseded(attempt: int | None) -> Conflict:
    """Return the refusal for an attempt that lost its upload to a newer one."""
    newer = f" (attempt {attempt})" if attempt is not None else ""
    return Conflict(f"another attempt{newer} has taken this upload over: open it again to continue")


def _empty_hash(algorithm: str) -> dict[str, HashState]:
    state = hashing.start(algorithm).state()
    return {algorithm: state} if state is not None else {}
