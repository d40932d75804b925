"""Whom a bearer token belongs to, asked of the API server and remembered for a moment.

What belongs here: TokenReviews with bounds in number and time. What does not: what the caller may do, and how
a service refuses.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from kubekit.reviews import review_token
from opskit.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.client import Client
    from kubekit.reviews import Identity

MOST_TOKEN_BYTES = 16 * 1024
#: for so long an answer is used again: a withdrawn token, or one accepted since, is seen no later
REMEMBERED_SECONDS = 10.0
_REMEMBERED = 1024
_AT_ONCE = 8
_WAITING = 256
_JWT_PARTS = 3


class Overloaded(Exception):
    """More tokens wait for the API server than are let wait."""


@dataclass(frozen=True)
class _Answer:
    identity: Identity | None
    until: float


class _Claims(msgspec.Struct):
    exp: float | None = None


class TokenReviews:
    """Answers of the API server, each asked once however many wait for it.

    A token itself is never kept, only its hash; an answer is never used longer than the token says it lives.
    Anybody may come with what is no token: tokens that were somebody's here have memory and places of their
    own, which a flood of others does not take.
    """

    def __init__(self, client: Client, audiences: Sequence[str] = (), *, clock: Clock | None = None) -> None:
        self._client = client
        self._audiences = tuple(audiences)
        self._clock = clock or SystemClock()
        self._good: OrderedDict[str, _Answer] = OrderedDict()
        self._others: OrderedDict[str, _Answer] = OrderedDict()
        self._asking: dict[str, asyncio.Task[Identity | None]] = {}
        self._strange: set[str] = set()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._strange_slots = asyncio.Semaphore(_AT_ONCE)

    def knows(self, token: str) -> bool:
        """Tell whether the token was somebody's when it was asked about last."""
        return _key(token) in self._good

    async def identify(self, token: str) -> Identity | None:
        """Return whom the token belongs to, None when it is not valid for the audiences.

        ``KubeError`` when the API server does not answer, ``Overloaded`` when too many ask.
        """
        if not token or len(token) > MOST_TOKEN_BYTES:
            return None
        key = _key(token)
        known = self._good.get(key) or self._others.get(key)
        if known is not None and self._clock.monotonic() < known.until:
            return known.identity
        # Who gives up does not take the answer away from the others.
        return await asyncio.shield(self._asking.get(key) or self._begin(key, token))

    def _begin(self, key: str, token: str) -> asyncio.Task[Identity | None]:
        if key in self._good:
            slots = self._slots
        elif len(self._strange) < _WAITING:
            slots = self._strange_slots
            self._strange.add(key)
        else:
            raise Overloaded
        task = self._asking[key] = asyncio.create_task(self._review(key, token, slots))
        task.add_done_callback(lambda done: self._answered(key, done))
        return task

    async def _review(self, key: str, token: str, slots: asyncio.Semaphore) -> Identity | None:
        async with slots:
            identity = await review_token(self._client, token, self._audiences)
        seconds = min(REMEMBERED_SECONDS, self._life(token))
        self._good.pop(key, None)
        self._others.pop(key, None)
        kept = self._others if identity is None else self._good
        kept[key] = _Answer(identity, self._clock.monotonic() + seconds)
        while len(kept) > _REMEMBERED:
            kept.popitem(last=False)
        return identity

    def _answered(self, key: str, task: asyncio.Task[Identity | None]) -> None:
        self._asking.pop(key, None)
        self._strange.discard(key)
        if not task.cancelled():
            task.exception()  # else asyncio complains when all who waited for it have gone

    def _life(self, token: str) -> float:
        """Return for how many seconds the token says it is still valid; what says nothing has no end."""
        parts = token.split(".")
        if len(parts) != _JWT_PARTS:
            return REMEMBERED_SECONDS
        payload = parts[1]
        try:
            said = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
            expires = msgspec.json.decode(said, type=_Claims).exp
        except (binascii.Error, msgspec.DecodeError, ValueError):
            return REMEMBERED_SECONDS
        return REMEMBERED_SECONDS if expires is None else expires - self._clock.now().timestamp()


def _key(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
