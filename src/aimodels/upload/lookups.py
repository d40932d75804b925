"""What the registry says about sessions, asked seldom however often somebody wants to know.

What belongs here: one question at a time per session, answers remembered for a short time, bounds on both.
What does not: what an answer allows (``access``). Nothing is kept that a restart may not forget.

Anybody may come with ids and tokens that are none. Questions about sessions that were good before are apart
from those: neither their number nor their answers are pushed aside by a flood of others.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aimodels.upload.refusals import busy
from modelio.registry import Denied, GrantSource, NotFound, TransferEnded

if TYPE_CHECKING:
    from pathlib import Path

    from modelio.registry import RegistryClient
    from opskit.clock import Clock

#: A record is asked for again after so long, so that a withdrawn session is refused soon.
FRESH_SECONDS = 5.0
#: That there is no such session is believed shorter: one issued just now is not there everywhere yet.
UNKNOWN_SECONDS = 2.0
#: What was revoked does not come back; what has lapsed may be allowed again.
REVOKED_SECONDS = 60.0
#: A token that does not fit may be newer than the answer: an older one than this is asked for again.
RECENT_SECONDS = 1.0
_REMEMBERED = 1024
_ASKING_AT_ONCE = 16
#: Of the sessions that were never good here, so many may wait; others are told to come again.
MOST_WAITING = 128


@dataclass(frozen=True)
class Known:
    """A session as the registry knew it; ``token_hash`` is None when there is none that could be used.

    ``asked`` is when it was asked for last, ``until`` how long that is believed.
    """

    client: RegistryClient
    asked: float
    until: float
    repository: str = ""
    token_hash: str | None = None
    over: bool = False
    revoked: bool = False


class Lookups:
    """The sessions asked for lately."""

    def __init__(self, client: RegistryClient, token_file: Path, clock: Clock) -> None:
        self._client = client
        self._token_file = token_file
        self._clock = clock
        self._good: OrderedDict[str, Known] = OrderedDict()
        self._others: OrderedDict[str, Known] = OrderedDict()
        self._asking: dict[str, asyncio.Task[Known]] = {}
        self._strange: set[str] = set()
        self._slots = asyncio.Semaphore(_ASKING_AT_ONCE)

    async def of(self, session: str) -> Known:
        """Return what is known of a session; Problem 429 when too many unknown ones are asked for."""
        known = self._good.get(session) or self._others.get(session)
        if known is not None and self._clock.monotonic() < known.until:
            return known
        task = self._asking.get(session) or self._begin(session, self._good.get(session))
        return await asyncio.shield(task)

    async def newer(self, session: str, known: Known) -> Known:
        """Return what is known since, for somebody whom ``known`` did not fit.

        However many come with wrong tokens, and whatever the registry answers: a session is asked for at most
        once in ``RECENT_SECONDS``.
        """
        task = self._asking.get(session)
        if task is not None:
            return await asyncio.shield(task)
        now, latest = self._clock.monotonic(), self._good.get(session, known)
        if latest.revoked or latest.token_hash is None or now - latest.asked < RECENT_SECONDS:
            return latest
        self._good[session] = replace(latest, asked=now)
        return await asyncio.shield(self._begin(session, latest))

    def _begin(self, session: str, before: Known | None) -> asyncio.Task[Known]:
        if before is None and len(self._strange) >= MOST_WAITING:
            raise busy()
        task = self._asking[session] = asyncio.create_task(self._ask(session, before))
        if before is None:
            self._strange.add(session)
        task.add_done_callback(lambda done: self._answered(session, done))
        return task

    def _answered(self, session: str, task: asyncio.Task[Known]) -> None:
        del self._asking[session]
        self._strange.discard(session)
        if not task.cancelled():
            task.exception()  # whoever asked may have left

    async def _ask(self, session: str, before: Known | None) -> Known:
        if before is not None:
            return self._keep(session, await self._exchange(session, before))
        async with self._slots:
            return self._keep(session, await self._exchange(session, None))

    async def _exchange(self, session: str, before: Known | None) -> Known:
        client = before.client if before else self._client.with_auth(GrantSource(self._token_file, session))
        now = self._clock.monotonic()
        try:
            spec = await client.transfer()
        except TransferEnded as error:
            until = now + (REVOKED_SECONDS if error.revoked else FRESH_SECONDS)
            return Known(client, now, until, token_hash=error.token_hash, over=True, revoked=error.revoked)
        except (Denied, NotFound):
            # one that was good a moment ago has ended; its token still tells who may know that
            token_hash = before.token_hash if before else None
            return Known(client, now, now + UNKNOWN_SECONDS, token_hash=token_hash, over=True)
        if spec is None or spec.purpose != "upload" or not spec.token_hash:
            return Known(client, now, now + FRESH_SECONDS)
        return Known(client, now, now + FRESH_SECONDS, spec.repository, spec.token_hash)

    def _keep(self, session: str, known: Known) -> Known:
        kept = self._others if known.token_hash is None else self._good
        (self._good if kept is self._others else self._others).pop(session, None)
        kept[session] = known
        kept.move_to_end(session)
        while len(kept) > _REMEMBERED:
            kept.popitem(last=False)
        return known
