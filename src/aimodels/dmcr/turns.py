"""One writer at a time per upload in this process: a newer request makes the older one stop and flush.

A connection that is half open can hold bytes that the client has sent and does not know of; whoever continues
the upload lets that request end first, so that the offset it reads is the largest one. Between processes the
session's swap decides.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Turn:
    """A request's time as the writer of one upload."""

    def __init__(self) -> None:
        self.stopped = False
        self.over = asyncio.Event()
        self._reading: asyncio.Timeout | None = None

    def stop(self) -> None:
        """Ask the request to read no further."""
        self.stopped = True
        if self._reading is not None:
            self._reading.reschedule(0)

    @contextlib.asynccontextmanager
    async def reading(self, idle: float) -> AsyncIterator[Patience]:
        """Read within: TimeoutError after ``idle`` seconds without the client, at once when stopped."""
        async with asyncio.timeout(0 if self.stopped else None) as scope:
            self._reading = scope
            try:
                yield Patience(self, scope, idle)
            finally:
                self._reading = None


class Patience:
    """Time that counts while the client is waited for, and not while its bytes wait for us."""

    def __init__(self, turn: Turn, scope: asyncio.Timeout, idle: float) -> None:
        self._turn = turn
        self._scope = scope
        self._idle = idle
        self._now = asyncio.get_running_loop().time

    def begin(self) -> None:
        """Wait for the client from now on."""
        if not self._turn.stopped:
            self._scope.reschedule(self._now() + self._idle)

    def end(self) -> None:
        """Something came."""
        if not self._turn.stopped:
            self._scope.reschedule(None)


class Turns:
    """The writers of this process by session."""

    def __init__(self) -> None:
        self._writers: dict[str, Turn] = {}

    @contextlib.asynccontextmanager
    async def take(self, sid: str) -> AsyncIterator[Turn]:
        """Be the writer of the upload, after any other one has flushed."""
        turn = Turn()
        before = self._writers.get(sid)
        self._writers[sid] = turn
        try:
            if before is not None:
                before.stop()
                await before.over.wait()
            yield turn
        finally:
            turn.over.set()
            if self._writers.get(sid) is turn:
                del self._writers[sid]

    async def stop(self, sid: str) -> bool:
        """Make a writer of the upload end; False when there is none."""
        turn = self._writers.get(sid)
        if turn is None:
            return False
        turn.stop()
        await turn.over.wait()
        return True
