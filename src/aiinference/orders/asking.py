"""Questions to others that may hang: waited for a moment, and answered later.

What belongs here: how long whoever asks is kept, and what becomes of an answer that comes after that. What
does not: any question.

A reconcile has one of few workers. Were it to wait for somebody who does not answer, every other order would
wait with it. So the question goes on by itself, the reconcile goes on without it, and the key is called again
when there is an answer.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

A = TypeVar("A")
Key = tuple[str, str]

#: a healthy answer takes some milliseconds
PATIENCE = 0.25
#: while others are still waited for
_BRIEFLY = 0.02
#: for the whole question, over every way there is to ask it
DEADLINE = 45.0
#: an answer that nobody has called for says nothing any more
_FRESH = 5.0
_AT_ONCE = 64


class Unanswered(Exception):
    """The question is open; whoever asked is called when it is not."""


@dataclass
class _Open(Generic[A]):
    question: object
    task: asyncio.Task[A]
    #: when it was answered, by the loop's time
    ended: float | None = None
    #: whoever asked has gone on without the answer
    left: bool = False


class Desk(Generic[A]):
    """Takes the questions of orders to one of the others; ``changed`` is called with a late answer's key."""

    def __init__(self, changed: Callable[[Key], None]) -> None:
        self._changed = changed
        self._open: dict[Key, _Open[A]] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._slow = False

    async def run(self) -> None:
        """Keep the desk open until cancelled; no question outlives it."""
        try:
            await asyncio.Event().wait()
        finally:
            tasks = [one.task for one in self._open.values()]
            for key in tuple(self._open):
                self.forget(key)
            await asyncio.gather(*tasks, return_exceptions=True)

    async def ask(self, key: Key, question: object, call: Callable[[], Awaitable[A]]) -> A:
        """Return the answer to the call; ``Unanswered`` when it does not come at once.

        The same question of the same key is asked once and answered once; another one takes its place.
        """
        found = self._open.get(key)
        if found is None or found.question != question or self._is_stale(found):
            self.forget(key)
            found = self._begin(key, question, call)
        if not found.task.done():
            await asyncio.wait({found.task}, timeout=_BRIEFLY if self._slow else PATIENCE)
        if not found.task.done():
            self._slow = found.left = True
            raise Unanswered
        self._open.pop(key, None)
        return found.task.result()

    def forget(self, key: Key) -> None:
        """Ask no more for a key."""
        found = self._open.pop(key, None)
        if found is not None:
            found.left = False
            found.task.cancel()

    def _begin(self, key: Key, question: object, call: Callable[[], Awaitable[A]]) -> _Open[A]:
        task = asyncio.create_task(self._timed(call), name=f"ask-{'/'.join(key)}")
        found = self._open[key] = _Open(question, task)
        task.add_done_callback(lambda _: self._answered(key, found))
        return found

    async def _timed(self, call: Callable[[], Awaitable[A]]) -> A:
        async with self._turns:
            began = _now()
            try:
                async with asyncio.timeout(DEADLINE):
                    return await call()
            finally:
                self._slow = _now() - began > PATIENCE

    def _answered(self, key: Key, found: _Open[A]) -> None:
        found.ended = _now()
        if not found.task.cancelled():
            found.task.exception()  # whoever asks again is told; an error nobody asks for is no mistake
        if found.left:
            self._changed(key)

    def _is_stale(self, found: _Open[A]) -> bool:
        return found.ended is not None and _now() - found.ended > _FRESH


def _now() -> float:
    return asyncio.get_running_loop().time()
