"""Patience for long transfers: failures count from the last progress, not from the beginning.

What belongs here: whether to go on after a failure, and when. What does not: how to go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelio.registry.errors import NotAuthorised, RegistryError
from opskit.clock import Clock, SystemClock
from opskit.retry import Backoff

if TYPE_CHECKING:
    from modelio.registry.errors import RegistryError


_BACKOFF = Backoff(first=0.2, most=15.0)


@dataclass(frozen=True)
class Patience:
    """How long to wait: ``connect`` and ``stall`` per step, ``retry`` for all tries of one call, in seconds.

    ``stall`` is the time without a byte moving, or without an answer once all is sent. ``retry`` of 0 means
    one try: for callers that have a queue of their own.
    """

    connect: float = 10.0
    stall: float = 60.0
    retry: float = 120.0
    backoff: Backoff = _BACKOFF


class Persistence:
    """Decides after each failure of one transfer whether it is tried again."""

    def __init__(self, patience: Patience, clock: Clock | None = None) -> None:
        self._patience = patience
        self._clock = clock or SystemClock()
        self._failures = 0
        self._since = 0.0
        self._renewed = False

    def moved(self) -> None:
        """Something was gained since the last failure."""
        self._failures = 0
        self._renewed = False

    async def bear(self, failure: RegistryError, *, hopeful: bool = False) -> None:
        """Wait before the next try, or raise the failure when it is final or patience is over.

        A refused grant is worth one more try at once, since the next one brings a new grant.
        """
        if isinstance(failure, NotAuthorised) and not self._renewed:
            self._renewed = True
            return
        if not (failure.retriable or hopeful):
            raise failure
        now = self._clock.monotonic()
        if self._failures == 0:
            self._since = now
        self._failures += 1
        delay = max(self._patience.backoff.delay(self._failures), failure.retry_after or 0.0)
        if now + delay > self._since + self._patience.retry:
            raise failure
        await self._clock.sleep(delay)
