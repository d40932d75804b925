"""Repositories: reading their records and changing them, one swap for all changes that wait.

What belongs here: find, open, close, change with group commit. What does not: what a manifest or a tag
needs before it may stand in a record (``manifests``).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aimodels.dmcr.caches import Cache
from aimodels.dmcr.layout import Record, TooLarge, record_key
from aimodels.dmcr.problems import Denied, Invalid, NotFound, RegistryProblem, TryAgain
from aimodels.dmcr.swaps import Held, Lost, Swaps
from objectstore.port import NoSuchKey

if TYPE_CHECKING:
    from collections.abc import Callable

    #: takes the freshest record (None: there is none) and returns what it shall be, or refuses
    Edit = Callable[[Record | None], Record]

_CACHE_BYTES = 64 << 20
#: how often one batch is tried against other replicas before its callers are told to come back
_SWAP_TRIES = 50


class _Change:
    """One caller's edit in a batch. Its outcome counts only once what it rests on is written."""

    def __init__(self, edit: Edit) -> None:
        self.future: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        self._edit = edit
        self._problem: RegistryProblem | None = None

    def apply(self, record: Record | None) -> Record | None:
        """Return the record with the edit, or as it was when the edit refuses."""
        self._problem = None
        try:
            return self._edit(record)
        except RegistryProblem as problem:
            self._problem = problem
            return record

    def answer(self, record: Record | None) -> None:
        """Tell the caller what is written now."""
        if self._problem is not None:
            self.refuse(self._problem)
        elif record is not None and not self.future.done():
            self.future.set_result(record)

    def refuse(self, error: Exception) -> None:
        """Tell the caller that nothing of it was written, or that it is not known."""
        if not self.future.done():
            self.future.set_exception(error)


class Repositories:
    """The records of one bucket, as one replica sees and changes them."""

    def __init__(self, swaps: Swaps, owner: str) -> None:
        self._swaps = swaps
        self._owner = owner
        self._cache: Cache[Held[Record]] = Cache(_CACHE_BYTES)
        self._waiting: dict[str, list[_Change]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    async def get(self, name: str) -> Record | None:
        """Return the record as the store has it now; an unchanged one is not read again."""
        held = await self._freshest(name)
        return held.value if held else None

    async def find(self, name: str) -> Record:
        """Return the record of an open repository; NAME_UNKNOWN otherwise."""
        return opened(await self.get(name), name)

    async def open(self, name: str) -> Record:
        """Return the open record; a missing or closed one begins a new life. The catalogue's right."""
        life = self._swaps.fresh()

        def edit(record: Record | None) -> Record:
            if record is not None and record.state == "open":
                return record
            return Record(name=name, life=life, owner=self._owner, state="open")

        return await self.change(name, edit)

    async def create(self, name: str) -> Record:
        """Return the open record; a missing one is created, a closed one is refused. A pusher's right."""
        record = await self.get(name)
        if record is not None:
            return opened(record, name)
        life = self._swaps.fresh()

        def edit(record: Record | None) -> Record:
            if record is not None:
                return opened(record, name)
            return Record(name=name, life=life, owner=self._owner, state="open")

        return await self.change(name, edit)

    async def close(self, name: str) -> Record:
        """Close: tags, manifests and commits in flight end in one swap; a missing record is made closed."""
        life = self._swaps.fresh()

        def edit(record: Record | None) -> Record:
            if record is None:
                now = self._swaps.now()
                return Record(name=name, life=life, owner=self._owner, state="closed", at=now)
            if record.state == "closed":
                return record
            self.owned(record)
            now = self._swaps.now()
            return Record(name=name, life=record.life, owner=record.owner, state="closed", at=now)

        return await self.change(name, edit)

    def owned(self, record: Record) -> None:
        """Refuse what takes roots away when the record belongs to another installation."""
        if record.owner != self._owner:
            raise Denied(
                f"repository {record.name} belongs to {record.owner}, this is {self._owner}: "
                "nothing is removed; adopt it first"
            )

    async def change(self, name: str, edit: Edit) -> Record:
        """Apply the edit to the freshest record and return the record that holds it.

        Edits that arrive while a swap runs share the next one. Each is applied in turn, or refused alone.
        """
        change = _Change(edit)
        self._waiting.setdefault(name, []).append(change)
        if name not in self._running:
            self._running[name] = asyncio.create_task(self._run(name))
        return await change.future

    async def _run(self, name: str) -> None:
        try:
            while batch := self._waiting.pop(name, []):
                await self._settle(name, batch)
        finally:
            del self._running[name]

    async def _settle(self, name: str, batch: list[_Change]) -> None:
        try:
            await self._commit(name, batch)
        except TooLarge:
            for change in batch:
                if len(batch) > 1:
                    await self._settle(name, [change])
                else:
                    change.refuse(
                        Invalid(
                            f"repository {name} has too many tags and manifests: remove some first",
                            status=413,
                            code="DENIED",
                        )
                    )
        except Exception as error:  # noqa: BLE001 - every caller of the batch gets it
            for change in batch:
                change.refuse(error)

    async def _commit(self, name: str, batch: list[_Change]) -> None:
        for _ in range(_SWAP_TRIES):
            held = await self._freshest(name)
            before = held.value if held else None
            after = before
            for change in batch:
                after = change.apply(after)
            try:
                if after is not None and after is not before:
                    after = (await self._write(name, held, after)).value
            except Lost:
                self._cache.drop(name)
                continue
            for change in batch:
                change.answer(after)
            return
        raise TryAgain(f"repository {name} changes faster than it can be changed here: try again")

    async def _write(self, name: str, held: Held[Record] | None, record: Record) -> Held[Record]:
        key = record_key(name)
        written = await (self._swaps.swap(key, held, record) if held else self._swaps.new(key, record))
        self._keep(name, written)
        return written

    async def _freshest(self, name: str) -> Held[Record] | None:
        """Return the record under its present ETag: decoded once, then only the ETag is compared."""
        key = record_key(name)
        cached = self._cache.get(name)
        if cached is not None:
            try:
                info = await self._swaps.store.head(key)
            except NoSuchKey:
                return None
            if info.etag == cached.etag:
                return cached
        held = await self._swaps.load(key, Record)
        if held is not None:
            self._keep(name, held)
        return held

    def _keep(self, name: str, held: Held[Record]) -> None:
        self._cache.put(name, held, _weight(held.value))


def _weight(record: Record) -> int:
    """Return about how much memory a record takes; annotations and children come from outside."""
    weight = 500 + 300 * len(record.tags) + 500 * len(record.pending)
    for entry in record.manifests.values():
        weight += 1000 + 150 * len(entry.children) + len(entry.artifact_type or "")
        weight += sum(150 + len(key) + len(value) for key, value in (entry.annotations or {}).items())
    return weight


def opened(record: Record | None, name: str) -> Record:
    """Return the record if it is open; NAME_UNKNOWN otherwise."""
    if record is None or record.state != "open":
        raise NotFound(f"repository {name} does not exist", code="NAME_UNKNOWN")
    return record
