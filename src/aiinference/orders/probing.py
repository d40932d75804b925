"""Asking the orders that run, beside all reconciles: an answer may take a minute.

What belongs here: who is asked when, and what is remembered. What does not: questions and judgement
(``aiinference.probes``).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiinference.probes import health
from aiinference.probes.client import Outcome, Prober
from aiinference.workload import gate
from opskit import logging

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiinference.probes.health import Health
    from aiinference.probes.questions import Question
    from opskit.clock import Clock

Key = tuple[str, str]

_log = logging.logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Target:
    """What of an order is asked, and where."""

    #: uid of the order: another life of the same name has no past
    order: str
    #: digest of what the replicas are started from
    launch: str
    question: Question
    #: of the replicas that take requests
    addresses: tuple[str, ...]
    #: whether these all run by the plan of this launch
    launched: bool
    key: str | None
    #: whether the cluster says that replicas of an earlier launch are being replaced
    rolling: bool = False
    #: whether people replace them by hand and have not done so with all
    by_hand: bool = False


@dataclass
class _Followed:
    target: Target
    health: Health
    #: the replicas are being replaced: silence is a start, and no failure
    starts: bool = False
    task: asyncio.Task[None] | None = None


class Probing:
    """Asks every order it was told to, each at its own pace; ``changed`` is called with news."""

    def __init__(self, clock: Clock, changed: Callable[[Key], None], prober: Prober | None = None) -> None:
        self._clock = clock
        self._changed = changed
        self._prober = prober or Prober()
        self._followed: dict[Key, _Followed] = {}
        self._running = False

    async def run(self) -> None:
        """Ask until cancelled."""
        async with self._prober:
            self._running = True
            for key in self._followed:
                self._begin(key)
            try:
                await asyncio.Event().wait()
            finally:
                self._running = False
                tasks = [one.task for one in self._followed.values() if one.task]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def health(self, key: Key, order: str) -> Health | None:
        """Return what is remembered of an order, None when it was never followed in this life."""
        followed = self._followed.get(key)
        return followed.health if followed and followed.target.order == order else None

    def key(self, key: Key, order: str) -> str | None:
        """Return what an order is asked with, None when it is not followed in this life."""
        followed = self._followed.get(key)
        return followed.target.key if followed and followed.target.order == order else None

    def follow(self, key: Key, target: Target, known: Health) -> None:
        """Ask an order from now on; ``known`` is what an earlier process knew of it."""
        followed = self._followed.get(key)
        if followed is not None and followed.target.order != target.order:
            self.forget(key)
            followed = None
        if followed is None:
            # Begun by an earlier process, whose memory is gone; later ones are seen by the launch.
            self._followed[key] = _Followed(target, known, starts=target.rolling or target.by_hand)
            self._begin(key)
            return
        before, followed.target = followed.target, target
        followed.starts |= before.launch != target.launch
        if before.addresses != target.addresses:
            self._begin(key)  # who has just come up is not kept waiting for the next turn

    def forget(self, key: Key) -> None:
        """Ask an order no more."""
        followed = self._followed.pop(key, None)
        if followed is not None and followed.task is not None:
            followed.task.cancel()

    def _begin(self, key: Key) -> None:
        followed = self._followed[key]
        if not self._running:
            return
        if followed.task is not None:
            followed.task.cancel()
        followed.task = asyncio.create_task(self._ask(key, followed), name=f"probe-{'/'.join(key)}")

    async def _ask(self, key: Key, followed: _Followed) -> None:
        while True:
            outcome = await self._asked(followed)
            if outcome is not None:
                before = health.gist(followed.health)
                followed.health = self._judged(followed, outcome)
                if health.gist(followed.health) != before:
                    _log.info("order answers" if outcome.ok else "order does not answer", order="/".join(key))
                    self._changed(key)
            await self._clock.sleep(health.pause(followed.health).total_seconds())

    def _judged(self, followed: _Followed, outcome: Outcome) -> Health:
        """Return the health after an answer; replicas of a new launch begin without a past."""
        if outcome.busy:  # neither silence nor an answer, so that it ends no start
            return health.step(followed.health, outcome, self._clock.now())
        if followed.starts and not outcome.ok:
            followed.starts = False
            return health.Health()
        target = followed.target
        if target.launched and not (target.rolling or target.by_hand):
            followed.starts = False
        return health.step(followed.health, outcome, self._clock.now())

    async def _asked(self, followed: _Followed) -> Outcome | None:
        """Return the worst of the replicas' answers, as any may be met by a user; None while it starts.

        A busy one has not answered: it counts where all are.
        """
        target = followed.target
        if not target.addresses:
            return None if followed.health.well is None else Outcome("No replica is ready.", 0.0)
        answers = await asyncio.gather(
            *(
                self._prober.ask(address, gate.API_PORT, target.question, target.key)
                for address in target.addresses
            )
        )
        return min(answers, key=lambda one: (not one.wrong, one.busy))
