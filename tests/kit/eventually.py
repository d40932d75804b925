"""Waiting for what happens elsewhere: asked often, ended by the event, failed with what was seen last."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

#: What comes at once is seen at once; what takes long is not asked for all the time.
STEP, MOST = 0.02, 0.25


async def eventually(look: Callable[[], Awaitable[T | None]], *, within: float = 30.0) -> T:
    """Return the first true answer; AssertionError with the last one when none comes in time."""
    deadline, step = asyncio.get_running_loop().time() + within, STEP
    while True:
        found = await look()
        if found:
            return found
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"not within {within} s; the last answer was {found!r}")
        await asyncio.sleep(step)
        step = min(1.5 * step, MOST)
