"""The memory that bytes pass through: one budget for the whole process.

What belongs here: taking and giving back buffers. What does not: what is in them.

Buffers are reused, since a new one costs as much time (page faults) as hashing its bytes. They are pages of
their own, so that a store may hand them to the disk as they are. Whoever finds the budget spent waits, and by
waiting does not read its socket: back-pressure reaches the client by TCP.
"""

from __future__ import annotations

import asyncio
import mmap
from collections import deque

from opskit import memory

MIB = 1 << 20
#: smaller buffers are not worth keeping
_KEPT_FROM = MIB
_SHARE_OF_LIMIT = 4
_MOST = 512 * MIB


class Buffers:
    """Lends buffers, first come first served, up to ``budget`` bytes, those kept for reuse included."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._lent = 0
        self._kept = 0
        self._free: dict[int, list[memoryview]] = {}
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def lent(self) -> int:
        """Return the bytes that are out."""
        return self._lent

    async def take(self, size: int) -> memoryview:
        """Return a buffer of exactly that size; its contents are arbitrary."""
        if self._waiting or not self._fits(size):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((size, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._lent -= size
                self._admit()
                raise
        else:
            self._lent += size
        return self._reused(size) or _pages(size)

    def give(self, buffer: memoryview) -> None:
        """Take a buffer back; nobody may look at it any more."""
        size = len(buffer)
        self._lent -= size
        if size >= _KEPT_FROM and not self._waiting:
            self._free.setdefault(size, []).append(buffer)
            self._kept += size
        self._admit()

    def _fits(self, size: int) -> bool:
        """A buffer larger than the budget is lent alone."""
        return self._lent == 0 or self._lent + size <= self.budget

    def _admit(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if turn.done():
                self._waiting.popleft()
                continue
            if not self._fits(size):
                break
            self._waiting.popleft()
            self._lent += size
            turn.set_result(None)

    def _reused(self, size: int) -> memoryview | None:
        kept = self._free.get(size)
        buffer = kept.pop() if kept else None
        if buffer is not None:
            self._kept -= size
        for other in list(self._free):
            while self._lent + self._kept > self.budget and self._free[other]:
                self._free[other].pop()
                self._kept -= other
            if not self._free[other]:
                del self._free[other]
        return buffer


def _pages(size: int) -> memoryview:
    """Return fresh memory that begins at a page; it goes back to the system with its last view."""
    return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))[:size]


def default_budget() -> int:
    """Return a quarter of the memory that the container may use, at most 512 MiB."""
    limit = memory.limit()
    return min(limit // _SHARE_OF_LIMIT, _MOST) if limit is not None else _MOST
