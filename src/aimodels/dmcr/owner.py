"""May this installation write here: the owner's mark (section 6 of the protocol), and what the store can do.

Reading the mark is courtesy: a second installation notices early and stays read-only. What protects the roots
is ``Record.owner``, compared in the very swap that would remove one. A store whose conditional writes are not
atomic protects nothing, so the registry only reads from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aimodels.dmcr.layout import OWNER_KEY, OwnerMark
from aimodels.dmcr.swaps import Lost, Swaps, Unclear, Undecodable
from objectstore.port import ObjectStoreError
from objectstore.probe import probe
from opskit import metrics
from opskit.logging import logger

if TYPE_CHECKING:
    from aimodels.dmcr.swaps import Held

LOOK_EVERY = 30.0
#: until the first answer of the store nothing can be written: ask again soon
_ASK_EVERY = 2.0
_READ_ONLY = metrics.gauge("dmcr_read_only", "1 while the bucket belongs to another installation.")
_log = logger(__name__)


class Ownership:
    """What the mark said when it was read last; nothing is written before it was read once."""

    def __init__(self, swaps: Swaps, owner: str) -> None:
        self._swaps = swaps
        self._owner = owner
        self._fit = False
        self._read = False
        self.read_only: str | None = "the owner's mark of the bucket was not read yet"

    def unready(self) -> str | None:
        """Return why nothing can be served yet; None from the first answer of the store on."""
        return None if self._read else self.read_only

    async def look(self) -> None:
        """Read the mark; an empty bucket gets ours."""
        try:
            trouble = await self._trouble()
        except (ObjectStoreError, Unclear, Undecodable) as error:
            _log.warning("owner's mark not readable", err=error)
            return
        if trouble and trouble != self.read_only:
            _log.warning("the bucket is read-only here", reason=trouble)
        elif not trouble and self.read_only:
            _log.info("the bucket is ours")
        self.read_only = trouble
        self._read = True
        _READ_ONLY.set(int(trouble is not None))

    async def run(self) -> None:
        """Look again and again, for ever."""
        while True:
            await self._swaps.clock.sleep(LOOK_EVERY if self._read else _ASK_EVERY)
            await self.look()

    async def _trouble(self) -> str | None:
        mark = await self._mark()
        if mark is None and await self._empty():
            own = OwnerMark(cluster=self._owner, incarnation=self._swaps.fresh(), since=self._swaps.now())
            try:
                mark = await self._swaps.new(OWNER_KEY, own)
            except Lost:
                mark = await self._mark()
        elif mark is None:
            mark = await self._mark()
        if mark is None:
            return f"the bucket holds objects and no {OWNER_KEY}: whose it is must be confirmed by a person"
        if mark.value.cluster != self._owner:
            return f"the bucket belongs to installation {mark.value.cluster}, this one is {self._owner}"
        return None if self._fit else await self._unfit()

    async def _unfit(self) -> str | None:
        """Probe the store until it was fit once in this process's life."""
        wrong = await probe(self._swaps.store)
        self._fit = not wrong
        return None if self._fit else f"the store is not safe to write to: {'; '.join(wrong)}"

    async def _mark(self) -> Held[OwnerMark] | None:
        return await self._swaps.load(OWNER_KEY, OwnerMark)

    async def _empty(self) -> bool:
        async for _ in self._swaps.store.list(""):
            return False
        return True
