"""Metering: how many bytes each transfer has sent and read, so that people see progress.

What belongs here: counting in memory, merging into the bucket, reading it back. What does not: deciding
anything by it; a crash may cost the last two seconds of it.

Delivered bytes are the union of the intervals of each blob, never a sum: repeated ranges would exceed the
whole. Every number merges (maximum, union), so replicas write one object per transfer in any order.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from aimodels.dmcr.intervals import Intervals
from aimodels.dmcr.layout import Versioned
from aimodels.dmcr.swaps import Held, Lost, Swaps, Unclear, Undecodable
from objectstore.port import NoSuchKey, ObjectStoreError
from opskit import metrics
from opskit.logging import logger

if TYPE_CHECKING:
    from aimodels.dmcr.principal import Principal

FLUSH_SECONDS = 1.5
#: An account that nothing has changed for so long leaves memory; the bucket keeps it.
IDLE_SECONDS = 900.0
#: Blobs of one transfer that are kept apart; bytes of further ones are summed.
MOST_BLOBS = 2048
#: A byte counted here so few seconds ago need not be looked for in the bucket.
_JUST_NOW = 60
_TRIES = 10

RECEIVED = metrics.counter(
    "dmcr_received_bytes", "Bytes of uploads that arrived, repeated ones too.", ["purpose"]
)
DELIVERED = metrics.counter("dmcr_delivered_bytes", "Bytes of blobs handed to readers.", ["purpose"])

_log = logger(__name__)


class Book(Versioned, frozen=True, kw_only=True):
    """``meters/<transfer>.json``: what all replicas know together.

    ``received`` is per replica, ``sessions`` the durable offset of each upload, ``latest`` the one that
    moved last and ``moved`` since when, ``more`` per replica what is not kept apart by blob.
    """

    received: dict[str, int] = msgspec.field(default_factory=dict)
    sessions: dict[str, int] = msgspec.field(default_factory=dict)
    latest: str = ""
    moved: int = 0
    delivered: dict[str, list[tuple[int, int]]] = msgspec.field(default_factory=dict)
    more: dict[str, int] = msgspec.field(default_factory=dict)
    began: int = 0
    at: int = 0


class Totals(msgspec.Struct, frozen=True):
    """A transfer's progress; ``began`` and ``at`` are when the first and last byte were counted."""

    received: int = 0
    offset: int = 0
    latest_offset: int = 0
    delivered: int = 0
    began: int | None = None
    at: int | None = None

    def bytes_per_second(self) -> int | None:
        """Return the mean speed from the first byte to the last one."""
        if self.began is None or self.at is None:
            return None
        return (self.received + self.delivered) // max(self.at - self.began, 1)


class Account:
    """What this replica knows of one transfer."""

    def __init__(self, replica: str, touched: float) -> None:
        self._replica = replica
        self.received: dict[str, int] = {}
        self.sessions: dict[str, int] = {}
        self.latest = ""
        self.moved = 0
        self.delivered: dict[str, Intervals] = {}
        self.more: dict[str, int] = {}
        self.began = 0
        self.at = 0
        self.dirty = False
        self.touched = touched
        self.held: Held[Book] | None = None

    def receive(self, count: int) -> None:
        """Count bytes that arrived."""
        self.received[self._replica] = self.received.get(self._replica, 0) + count

    def journal(self, session: str, offset: int) -> None:
        """Note an upload's durable offset; a late report never takes it back."""
        if session in self.sessions or len(self.sessions) < MOST_BLOBS:
            self.sessions[session] = max(offset, self.sessions.get(session, 0))
            if session != self.latest:
                self.latest = session
                self.moved = self.at

    def deliver(self, digest: str, start: int, end: int) -> None:
        """Add an interval of a blob."""
        known = self.delivered.get(digest)
        if known is None:
            if len(self.delivered) >= MOST_BLOBS:
                self.more[self._replica] = self.more.get(self._replica, 0) + end - start
                return
            known = self.delivered[digest] = Intervals()
        known.add(start, end)

    def absorb(self, book: Book) -> None:
        """Merge what is in the bucket."""
        for mine, theirs in ((self.received, book.received), (self.more, book.more)):
            for replica, count in theirs.items():
                mine[replica] = max(count, mine.get(replica, 0))
        for session, offset in book.sessions.items():
            self.sessions[session] = max(offset, self.sessions.get(session, 0))
        for digest, intervals in book.delivered.items():
            self.delivered.setdefault(digest, Intervals()).update(Intervals(intervals))
        if book.moved > self.moved:
            self.latest, self.moved = book.latest, book.moved
        self.at = max(self.at, book.at)
        self.began = min(filter(None, (self.began, book.began)), default=0)

    def book(self) -> Book:
        """Return everything, to be written."""
        return Book(
            received=dict(self.received),
            sessions=dict(self.sessions),
            latest=self.latest,
            moved=self.moved,
            delivered={digest: list(intervals) for digest, intervals in self.delivered.items()},
            more=dict(self.more),
            began=self.began,
            at=self.at,
        )

    def totals(self) -> Totals:
        """Return the sums."""
        return Totals(
            received=sum(self.received.values()),
            offset=sum(self.sessions.values()),
            latest_offset=self.sessions.get(self.latest, 0),
            delivered=sum(intervals.total() for intervals in self.delivered.values())
            + sum(self.more.values()),
            began=self.began or None,
            at=self.at or None,
        )


class Metering:
    """The meter of one replica; its counting methods run for every message and never wait."""

    def __init__(self, swaps: Swaps) -> None:
        self._swaps = swaps
        self._replica = swaps.fresh()
        self._accounts: dict[str, Account] = {}

    def received(self, principal: Principal, count: int) -> None:
        """``count`` bytes of an upload arrived."""
        RECEIVED.labels(principal.purpose).inc(count)
        if (account := self._touch(principal)) is not None:
            account.receive(count)

    def journaled(self, principal: Principal, session: str, offset: int) -> None:
        """The session's durable offset is now ``offset``."""
        if (account := self._touch(principal)) is not None:
            account.journal(session, offset)

    def resumed(self, principal: Principal, session: str, offset: int) -> None:
        """A session that was begun before goes on from ``offset``: stored, though nothing moved now."""
        if (account := self._touch(principal, moving=False)) is not None:
            account.journal(session, offset)

    def delivered(self, principal: Principal, digest: str, start: int, end: int) -> None:
        """Bytes ``[start, end)`` of the blob were handed to the reader's connection."""
        DELIVERED.labels(principal.purpose).inc(end - start)
        if (account := self._touch(principal)) is not None:
            account.deliver(digest, start, end)

    async def totals(self, transfer: str) -> Totals:
        """Return a transfer's progress over all replicas."""
        account = self._accounts.get(transfer)
        if account is None:
            account = self._accounts[transfer] = Account(self._replica, self._swaps.clock.monotonic())
        await self._read(transfer, account)
        return account.totals()

    async def moved(self, transfer: str) -> int:
        """Return when a byte of the transfer was counted last, anywhere; 0 when none was."""
        account = self._accounts.get(transfer)
        if account is not None and self._swaps.now() - account.at < _JUST_NOW:
            return account.at
        return (await self.totals(transfer)).at or 0

    async def run(self) -> None:
        """Flush what changed, for ever; a store that does not answer is tried again the next time."""
        while True:
            await self._swaps.clock.sleep(FLUSH_SECONDS)
            await self.flush()

    async def flush(self) -> None:
        """Write every account that changed since it was written last."""
        now = self._swaps.clock.monotonic()
        for transfer, account in list(self._accounts.items()):
            if account.dirty:
                try:
                    await self._write(transfer, account)
                except (ObjectStoreError, Unclear, Undecodable) as error:
                    _log.warning("progress not written yet", transfer=transfer, err=str(error))
            elif now - account.touched > IDLE_SECONDS:
                self._accounts.pop(transfer, None)

    def _touch(self, principal: Principal, *, moving: bool = True) -> Account | None:
        transfer = principal.transfer
        if transfer is None:
            return None
        now = self._swaps.clock.monotonic()
        account = self._accounts.get(transfer)
        if account is None:
            account = self._accounts[transfer] = Account(self._replica, now)
        account.dirty = True
        account.touched = now
        if moving:
            account.at = self._swaps.now()
            account.began = account.began or account.at
        return account

    async def _write(self, transfer: str, account: Account) -> None:
        account.dirty = False
        try:
            for _ in range(_TRIES):
                await self._read(transfer, account)
                key, held, book = meter_key(transfer), account.held, account.book()
                try:
                    account.held = await (
                        self._swaps.swap(key, held, book) if held else self._swaps.new(key, book)
                    )
                except Lost:
                    account.held = None
                    continue
                return
            account.dirty = True
        except BaseException:
            account.dirty = True
            raise

    async def _read(self, transfer: str, account: Account) -> None:
        """Absorb what other replicas wrote; an unchanged object is not read again."""
        key = meter_key(transfer)
        if account.held is not None:
            try:
                if (await self._swaps.store.head(key)).etag == account.held.etag:
                    return
            except NoSuchKey:
                account.held = None
                return
        held = await self._swaps.load(key, Book)
        account.held = held
        if held is not None:
            account.absorb(held.value)


def meter_key(transfer: str) -> str:
    """Return the key of a transfer's numbers."""
    return f"meters/{transfer}.json"


async def flush_at_end(metering: Metering, running: asyncio.Task[None]) -> None:
    """Stop the flushing task and write what is left."""
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await metering.flush()
