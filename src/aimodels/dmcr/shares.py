"""Whose turn it is when buffers are short, and who is too slow to keep one then.

What belongs here: who holds how much, who was slow, the order of those that wait. What does not: the memory
itself (``buffers``) and how an upload gives a buffer back (``ingest``).

Nothing of this is felt while there is memory for everybody. Else the next buffer goes to the account that
holds least, in the order of arrival. A buffer that fills so slowly that it would take longer than
``FILL_SECONDS`` is asked back after ``HOLD_SECONDS``: its bytes go to the store, the upload goes on, and its
account is a slow one until it fills a buffer in time. Slow ones come before the others within a quarter of
the memory, where each keeps a buffer for ``FILL_SECONDS``, and get more of it only while no other needs any:
fast uploads do not wait for slow clients, however many there are, and slow ones move too.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

#: nobody is asked to give a buffer back sooner
HOLD_SECONDS = 5.0
#: a buffer that would take longer to fill is held by somebody slow
FILL_SECONDS = 60.0
_SHARE_OF_SLOW = 4
_REMEMBERED = 4096


class Filler(Protocol):
    """Whoever fills one buffer after the other: the writer of an upload."""

    @property
    def account(self) -> str:
        """Return on whose account it holds memory."""
        ...

    @property
    def came(self) -> int:
        """Return how many bytes its client has sent into the buffer that it fills."""
        ...

    def spill(self) -> bool:
        """Begin to move the buffer's bytes elsewhere and give it back; False when it is about to move on."""
        ...


class Lease(NamedTuple):
    """A buffer that is out."""

    size: int
    filler: Filler | None
    account: str
    since: float

    def slowness(self, now: float) -> float:
        """Return how many times longer than allowed the buffer would take to fill."""
        came = self.filler.came if self.filler else 0
        return self.size * (now - self.since) / (FILL_SECONDS * max(came, 1))


class Waiter(NamedTuple):
    """Somebody who needs a buffer."""

    size: int
    filler: Filler | None
    turn: asyncio.Future[Lease]


class Shares:
    """Who holds which part of the memory."""

    def __init__(self, budget: int) -> None:
        self.lent = 0
        self._budget = budget
        self._held: Counter[str] = Counter()
        self._slow: OrderedDict[str, None] = OrderedDict()
        self._filling: dict[Filler, Lease] = {}
        self._asked: dict[Filler, Lease] = {}
        self._fast = float("-inf")

    def fits(self, size: int) -> bool:
        """Tell whether there is room; a buffer larger than the budget is lent alone."""
        return self.lent == 0 or self.lent + size <= self._budget

    def lend(self, size: int, filler: Filler | None, now: float) -> Lease:
        """Note that a buffer goes out."""
        lease = Lease(size, filler, filler.account if filler else "", now)
        self.lent += size
        if lease.account not in self._slow:
            self._fast = now
        if filler is not None:
            self._held[lease.account] += size
            self._filling[filler] = lease
        return lease

    def back(self, lease: Lease) -> None:
        """Note that a buffer is back."""
        self.lent -= lease.size
        if lease.filler is None:
            return
        self._held[lease.account] -= lease.size
        if not self._held[lease.account]:
            del self._held[lease.account]
        for leases in (self._filling, self._asked):
            if leases.get(lease.filler) is lease:
                del leases[lease.filler]

    def filled(self, filler: Filler, now: float) -> None:
        """Note that a filler has filled its buffer, and whether in time."""
        lease = self._filling.pop(filler, None)
        if lease is not None and lease.slowness(now) <= 1:
            self._slow.pop(filler.account, None)

    def first(self, waiting: Iterable[Waiter], now: float) -> Waiter | None:
        """Return whose turn it is; None when it is nobody's."""
        fast, slow = list[Waiter](), list[Waiter]()
        for waiter in waiting:
            (slow if self._is_slow(waiter) else fast).append(waiter)
        leads = min(slow, key=self._share, default=None)
        if leads is None or not self._may_lead(leads, now, others=bool(fast)):
            return min(fast, key=self._share, default=None)
        return leads

    def reclaim(self, shortage: int, now: float) -> None:
        """Ask the slowest to give buffers back until so much is on its way, as far as any is slow."""
        shortage -= sum(lease.size for lease in self._asked.values())
        known = sum(lease.size for lease in self._filling.values() if lease.account in self._slow)
        slowest = sorted(self._filling.values(), key=lambda each: each.slowness(now), reverse=True)
        for lease in slowest:
            if shortage <= 0 or lease.slowness(now) <= 1:
                return
            was_slow = lease.account in self._slow
            turn = FILL_SECONDS if was_slow and known <= self._budget // _SHARE_OF_SLOW else HOLD_SECONDS
            if now - lease.since >= turn and lease.filler is not None and lease.filler.spill():
                shortage -= lease.size
                known -= lease.size if was_slow else 0
                self._asked[lease.filler] = self._filling.pop(lease.filler)
                self._mark(lease.account)

    def _mark(self, account: str) -> None:
        self._slow[account] = None
        self._slow.move_to_end(account)
        while len(self._slow) > _REMEMBERED:
            self._slow.popitem(last=False)

    def _may_lead(self, slow: Waiter, now: float, *, others: bool) -> bool:
        """Tell whether a slow one gets the next buffer: within their share, or while no other needs it."""
        within = self._held_by_slow() + slow.size <= self._budget // _SHARE_OF_SLOW
        return within or not (others or now - self._fast < HOLD_SECONDS)

    def _is_slow(self, waiter: Waiter) -> bool:
        return waiter.filler is not None and waiter.filler.account in self._slow

    def _share(self, waiter: Waiter) -> int:
        return self._held[waiter.filler.account] if waiter.filler else 0

    def _held_by_slow(self) -> int:
        return sum(held for account, held in self._held.items() if account in self._slow)
