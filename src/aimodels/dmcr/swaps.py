"""Compare-and-swap of JSON objects: the only way in which anything is decided.

What belongs here: load, NEW and SWAP, and what a time-out on them means. What does not: what is written.

* ``Lost``: the condition did not hold. Read again from the step that the protocol names.
* ``Unclear``: the store did not say, and meanwhile somebody else wrote. The caller gives up with 503; a
  repetition could take effect a second time.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from aimodels.dmcr import layout
from aimodels.dmcr.layout import Versioned
from objectstore.port import NoSuchKey, ObjectStore, PreconditionFailed, StoreUnavailable
from opskit.retry import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from opskit.clock import Clock

T = TypeVar("T", bound=Versioned)

TRIES = 4
_BACKOFF = Backoff(first=0.2, most=2.0)


class Lost(Exception):
    """Another writer was first."""


class Unclear(Exception):
    """Whether the write happened cannot be told."""


class Undecodable(Exception):
    """The object is not what its key promises: nothing may be concluded from it."""


class Held(msgspec.Struct, Generic[T], frozen=True):
    """A value and the ETag under which it was read or written."""

    value: T
    etag: str


def fresh_id() -> str:
    """Return 128 random bits in hexadecimal."""
    return secrets.token_hex(16)


class Swaps:
    """Versioned objects of one store."""

    def __init__(self, store: ObjectStore, clock: Clock, fresh: Callable[[], str] = fresh_id) -> None:
        self.store = store
        self.clock = clock
        self.fresh = fresh

    def now(self) -> int:
        """Return the wall time in whole seconds."""
        return int(self.clock.now().timestamp())

    async def load(self, key: str, kind: type[T]) -> Held[T] | None:
        """Return the object and its ETag, or None when the key is absent."""
        try:
            stored = await self.store.get(key)
        except NoSuchKey:
            return None
        try:
            if layout.is_heavy(stored.body):
                value = await asyncio.to_thread(layout.decode, stored.body, kind)
            else:
                value = layout.decode(stored.body, kind)
            return Held(value, stored.etag)
        except msgspec.DecodeError as error:
            raise Undecodable(f"{key}: {error}") from error

    async def new(self, key: str, value: T) -> Held[T]:
        """Write where nothing is, or raise Lost."""
        return await self._write(key, None, value)

    async def swap(self, key: str, held: Held[T], value: T) -> Held[T]:
        """Write over exactly what is held, or raise Lost."""
        return await self._write(key, held.etag, value)

    async def _write(self, key: str, expected: str | None, value: T) -> Held[T]:
        value = msgspec.structs.replace(value, rev=self.fresh())
        body = (
            await asyncio.to_thread(layout.encode, value) if layout.is_heavy(value) else layout.encode(value)
        )
        doubt = False
        for attempt in range(1, TRIES + 1):
            try:
                etag = await self.store.put(key, body, if_match=expected, if_none_match=expected is None)
            except PreconditionFailed as error:
                if not doubt:
                    raise Lost(key) from error
            except StoreUnavailable:
                doubt = True
            else:
                return Held(value, etag)
            found = await self._look(key, type(value))
            if found and found.value.rev == value.rev:
                return found
            if (found.etag if found else None) != expected:
                break
            await self.clock.sleep(_BACKOFF.delay(attempt))
        raise Unclear(key)

    async def _look(self, key: str, kind: type[T]) -> Held[T] | None:
        """Read after a time-out; a store that does not even read leaves everything open."""
        for attempt in range(1, TRIES + 1):
            try:
                return await self.load(key, kind)
            except StoreUnavailable:
                await self.clock.sleep(_BACKOFF.delay(attempt))
        raise Unclear(key)
