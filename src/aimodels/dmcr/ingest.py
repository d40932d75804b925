"""Bytes of one request on their way into an upload.

What belongs here: one writer's run over a session, from the offset that the journal tells: filling part
buffers, and the bytes that fill none. What does not: HTTP; full buffers (``flight``); what follows when all
bytes are there (``commit``); when a buffer has to be given back (``shares``).

While its client is waited for, the buffer of a slow one may be asked back: what is in it becomes the tail, as
at the end of a request, and is brought back when there is memory again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aimodels.dmcr import parts
from aimodels.dmcr.flight import Engine, Flight
from aimodels.dmcr.layout import tail_key
from aimodels.dmcr.problems import Invalid, RangeRefused
from objectstore.port import NoSuchKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from aimodels.dmcr.layout import Session
    from aimodels.dmcr.sessions import Upload


#: who gave its buffer back keeps so many further bytes aside before it asks for memory that others wait for
_ASIDE = 64 << 10


class Ingest:
    """``start``, ``write`` bytes, then ``settle`` (PATCH) or commit (PUT); ``release`` in any case."""

    def __init__(
        self,
        engine: Engine,
        upload: Upload,
        *,
        account: str = "",
        plan: parts.Plan = (),
        algorithm: str = "sha256",
        expected: int | None = None,
        journaled: Callable[[int], None] = lambda _: None,
    ) -> None:
        """``expected`` is how many bytes the request announces; buffers are no larger than needed.

        Memory is held on the ``account``, that of the upload itself when none is named. A new upload that was
        opened without a ``plan`` gets this one.
        """
        self.account = account or upload.sid
        self.came = 0
        begun = engine.sessions.begun(upload, plan=plan, algorithm=algorithm)
        self.flight = Flight(engine, upload, begun, algorithm, journaled)
        self._engine = engine
        self._expected = expected
        self._number = len(upload.session.parts) + 1
        self._whole = self.flight.whole
        self._ended = _ended(upload.session)
        self.tailed = upload.session.tail is not None
        self._buffer: memoryview | None = None
        self._fill = 0
        self._aside, self._busy = bytearray(), True
        self._spilling: asyncio.Task[None] | None = None

    @property
    def session(self) -> Session:
        """Return the session as it was swapped last."""
        return self.flight.session

    @property
    def upload(self) -> Upload:
        """Return the session with its id and ETag."""
        return self.flight.upload

    @property
    def offset(self) -> int:
        """Return the offset of the next byte, journaled or not."""
        return self._whole + self._fill

    @property
    def rest(self) -> memoryview:
        """Return the bytes that fill no part yet."""
        return self._buffer[: self._fill] if self._buffer is not None else memoryview(b"")

    async def start(self) -> None:
        """Bring the tail back; 416 when it is not the one that the session names."""
        await self._bring_back(0)
        self._busy = False

    async def write(self, data: bytes) -> None:
        """Take bytes; returns when they are in a buffer, which may wait for the budget or the store."""
        await self._stay()
        try:
            await self._write(memoryview(data))
        finally:
            self._busy = False

    def spill(self) -> bool:
        """Begin to give the buffer back; False while the client is not what is waited for."""
        if self._busy or self._buffer is None:
            return False
        self._spilling = asyncio.create_task(self._spill(self._buffer))
        return True

    async def _write(self, view: memoryview) -> None:
        if view and self._ended:
            raise Invalid(
                "the upload holds its last part already: close it, or open a new one",
                code="BLOB_UPLOAD_INVALID",
            )
        if self._expected is not None:
            self._expected -= len(view)
            if self._expected < 0:
                raise Invalid("more bytes came than Content-Length announces", code="SIZE_INVALID")
        self._check()
        if view and self._spilled:
            if self._engine.buffers.contended and len(self._aside) + len(view) <= _ASIDE:
                self._aside += view
                return
            view = await self._with_aside(view)
        await self._pour(view)

    async def _pour(self, view: memoryview) -> None:
        """Put bytes into buffers, and full ones on their way."""
        while view:
            self._check()
            buffer = self._buffer
            if buffer is None:
                buffer = await self._take_buffer(len(view) + (self._expected or 0))
            piece = view[: len(buffer) - self._fill]
            self.came += len(piece)
            self._copy(buffer, piece)
            view = view[len(piece) :]
            if self._fill == parts.part_size(self.session.plan, self._number):
                await self._send()

    async def settle(self, *, cut: bool = False) -> Session:
        """Make everything taken durable: whole parts, then the rest as the tail, each with its journal.

        A request that was ``cut`` does not wait for memory: a few bytes that nobody was told of are dropped.
        """
        if cut:
            self._aside.clear()
        await self._land()
        if self._aside:
            await self._gather()
        await self._write_tail(self.rest)
        return self.session

    async def drain(self) -> None:
        """Wait until every part on its way is journaled and the rest is here; raises what went wrong."""
        await self._land()
        if self._spilled:
            await self._gather()

    async def store_rest(self, digest: str | None) -> int:
        """Store what fills no part, as the last part or as the only object; return the size of everything."""
        if self._fill and self.session.parts:
            await self.flight.store_last(self._number, self.rest, digest)
        elif not self.session.parts:
            await self.flight.store_whole(self.rest)
        return self.offset

    async def release(self) -> None:
        """Give every buffer back; parts that are on their way end first."""
        await self._stay()
        await self.flight.landed()
        self._give_back()

    @property
    def _spilled(self) -> bool:
        """Tell whether the bytes that fill no part are in the store instead of a buffer."""
        return self._buffer is None and self._fill > 0

    async def _stay(self) -> None:
        """Keep the buffer from now on; one that is being given back is gone first."""
        self._busy = True
        if self._spilling is not None:
            await asyncio.wait({self._spilling})
            self._spilling = None

    async def _land(self) -> None:
        await self._stay()
        await self.flight.landed()
        self._check()

    async def _spill(self, buffer: memoryview) -> None:
        """Make the buffer's bytes the tail, then give it back in any case: the journal tells what is here."""
        try:
            await self.flight.landed()
            self._check()
            await self._write_tail(buffer[: self._fill])
            self.tailed = True
        except Exception as error:  # noqa: BLE001 - the writer raises it
            self.flight.failure = self.flight.failure or error
        finally:
            self._give_back()

    async def _write_tail(self, rest: memoryview) -> None:
        """Make the bytes that fill no part durable, unless they are."""
        tail = self.session.tail
        if rest and (tail is None or tail.size != len(rest)):
            await self.flight.write_tail(rest)

    def _give_back(self) -> None:
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            self._engine.buffers.give(buffer)

    async def _gather(self) -> None:
        """Have everything that fills no part in memory again; what fills one now is stored."""
        await self._pour(await self._with_aside(memoryview(b"")))
        await self.flight.landed()
        self._check()

    async def _with_aside(self, view: memoryview) -> memoryview:
        """Bring the spilled bytes back; return what was kept aside with the view behind it."""
        view = memoryview(bytes(self._aside) + bytes(view)) if self._aside else view
        await self._bring_back(len(view))
        self._aside.clear()
        return view

    async def _bring_back(self, more: int) -> None:
        """Load the tail with room for ``more`` bytes; 416 when it is not the one that the session names."""
        if self.session.tail is None:
            return
        try:
            await self._load_tail(self.session.tail.etag, self.session.tail.size, more)
        except NoSuchKey:
            self._fill = 0
            self._give_back()
            await self.flight.drop_tail()
            raise RangeRefused(
                f"the bytes from {self.offset} on are lost: continue there", headers=standing(self.offset)
            ) from None
        except BaseException:
            self._give_back()  # what is in the store is whole, what is in the buffer is not
            raise

    def _copy(self, buffer: memoryview, piece: memoryview) -> None:
        end = self._fill + len(piece)
        buffer[self._fill : end] = piece
        self._fill = end

    def _check(self) -> None:
        if self.flight.failure is not None:
            raise self.flight.failure

    async def _take_buffer(self, announced: int) -> memoryview:
        size = parts.part_size(self.session.plan, self._number)
        if size is None:
            raise Invalid(
                "the upload needs more parts than a store takes: announce its length at the start",
                status=413,
                code="SIZE_INVALID",
            )
        if self._expected is not None:
            size = min(size, announced)
        self._buffer = await self._engine.buffers.take(size, self)
        self.came = 0
        return self._buffer

    async def _send(self) -> None:
        if self._buffer is None:
            raise AssertionError("a full buffer was filled")
        buffer = self._buffer
        self._engine.buffers.filled(self)
        await self.flight.send(self._number, buffer)
        self._buffer = None
        self._whole += self._fill
        self._fill = 0
        self._number += 1

    async def _load_tail(self, etag: str, size: int, more: int) -> None:
        """Read the tail, and make sure before and after that it is the one named."""
        key, store = tail_key(self.upload.sid), self._engine.store
        if (await store.head(key)).etag != etag:
            raise NoSuchKey(key)
        buffer, at = await self._take_buffer(size + more + (self._expected or 0)), 0
        async for piece in store.read(key, 0, size):
            buffer[at : at + len(piece)] = piece
            at += len(piece)
        if at != size or (await store.head(key)).etag != etag:
            raise NoSuchKey(key)
        self._fill = size


def _ended(session: Session) -> bool:
    """Tell whether the last journaled part is a short one: then an earlier try to close it came that far."""
    count = len(session.parts)
    return count > 0 and session.parts[-1].size != parts.part_size(session.plan, count)


def standing(offset: int) -> dict[str, str]:
    """Return the headers that tell how far an upload got."""
    return {"Range": f"0-{max(offset - 1, 0)}", "Dmcr-Offset": str(offset)}
