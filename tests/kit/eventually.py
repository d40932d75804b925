"""Waiting for what happens elsewhere: asked often, ended by the event, failed with what was seen last."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

STEP = 0.05


async def eventually(look: Callable[[], Awaitable[T | None]], *, within: float = 30.0) -> T:
    """Return the first true answer; AssertionError with the last one when none comes in time."""
    deadline = asyncio.get_running_loop().time() + within
    while True:
        found = await look()
        if found:
            return found
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"not within {within} s; the last answer was {found!r}")
        await asyncio.sleep(STEP)
