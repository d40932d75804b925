"""The memory that bytes pass through: one budget for the whole process.

What belongs here: taking and giving back buffers. What does not: what is in them, and whose turn it is
(``shares``).

Buffers are reused, since a new one costs as much time (page faults) as hashing its bytes. They are pages of
their own, so that a store may hand them to the disk as they are. Whoever finds the budget spent waits, and by
waiting does not read its socket: back-pressure reaches the client by TCP.
"""

from __future__ import annotations

import asyncio
import mmap
from typing import TYPE_CHECKING

from aimodels.dmcr.shares import Lease, Shares, Waiter
from opskit import memory

if TYPE_CHECKING:
    from aimodels.dmcr.shares import Filler

MIB = 1 << 20
#: smaller buffers are not worth keeping
_KEPT_FROM = MIB
_SHARE_OF_LIMIT = 4
_MOST = 512 * MIB
#: while somebody waits it is looked so often whether somebody else is too slow
_LOOK_EVERY = 1.0


class Buffers:
    """Lends buffers up to ``budget`` bytes, those kept for reuse included."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._shares = Shares(budget)
        self._kept = 0
        self._free: dict[int, list[memoryview]] = {}
        self._leases: dict[int, Lease] = {}
        self._waiting: list[Waiter] = []
        self._looking: asyncio.TimerHandle | None = None

    @property
    def lent(self) -> int:
        """Return the bytes that are out."""
        return self._shares.lent

    @property
    def contended(self) -> bool:
        """Tell whether somebody waits."""
        return bool(self._waiting)

    async def take(self, size: int, filler: Filler | None = None) -> memoryview:
        """Return a buffer of exactly that size; its contents are arbitrary.

        A ``filler`` may be asked to give it back before it is full, until it was told to be ``filled``.
        """
        if self._waiting or not self._shares.fits(size):
            lease = await self._turn(size, filler)
        else:
            lease = self._shares.lend(size, filler, _now())
        buffer = self._reused(size) or _pages(size)
        self._leases[id(buffer)] = lease
        return buffer

    def filled(self, filler: Filler) -> None:
        """Note that the filler has filled its buffer, which moves on."""
        self._shares.filled(filler, _now())

    def give(self, buffer: memoryview) -> None:
        """Take a buffer back; nobody may look at it any more."""
        size = len(buffer)
        self._shares.back(self._leases.pop(id(buffer)))
        if size >= _KEPT_FROM and not self._waiting:
            self._free.setdefault(size, []).append(buffer)
            self._kept += size
        self._admit()

    async def _turn(self, size: int, filler: Filler | None) -> Lease:
        """Wait; whoever gives up leaves nothing behind."""
        turn: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiter(size, filler, turn))
        self._admit()
        self._look_later()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._shares.back(turn.result())
            self._admit()
            raise

    def _admit(self) -> None:
        """Lend what there is to those whose turn it is; those that gave up are forgotten."""
        self._waiting = [waiter for waiter in self._waiting if not waiter.turn.done()]
        now = _now()
        while (first := self._shares.first(self._waiting, now)) is not None and self._shares.fits(first.size):
            self._waiting.remove(first)
            first.turn.set_result(self._shares.lend(first.size, first.filler, now))

    def _look_later(self) -> None:
        if self._looking is None:
            self._looking = asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look)

    def _look(self) -> None:
        """Ask buffers back from those that are too slow, as much as others wait for."""
        self._looking = None
        self._admit()
        if self._waiting:
            wanted = sum(waiter.size for waiter in self._waiting)
            self._shares.reclaim(wanted + self._shares.lent - self.budget, _now())
            self._look_later()

    def _reused(self, size: int) -> memoryview | None:
        kept = self._free.get(size)
        buffer = kept.pop() if kept else None
        if buffer is not None:
            self._kept -= size
        for other in list(self._free):
            while self.lent + self._kept > self.budget and self._free[other]:
                self._free[other].pop()
                self._kept -= other
            if not self._free[other]:
                del self._free[other]
        return buffer


def _now() -> float:
    return asyncio.get_running_loop().time()


def _pages(size: int) -> memoryview:
    """Return fresh memory that begins at a page; it goes back to the system with its last view."""
    return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))[:size]


def default_budget() -> int:
    """Return a quarter of the memory that the container may use, at most 512 MiB."""
    limit = memory.limit()
    return min(limit // _SHARE_OF_LIMIT, _MOST) if limit is not None else _MOST
