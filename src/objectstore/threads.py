"""Blocking calls of an engine, run in threads of its own."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Threads:
    """A pool whose callers may be cancelled without pulling a buffer from under a running call."""

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="objectstore")

    async def run(self, call: Callable[..., T], *arguments: object) -> T:
        """Run in a thread; a cancelled caller waits for it, as the thread still uses the caller's buffer."""
        future = asyncio.get_running_loop().run_in_executor(self._pool, call, *arguments)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            while not future.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait({future})
            if not future.cancelled():
                future.exception()
            raise

    async def close(self) -> None:
        """Wait for what is running."""
        await asyncio.to_thread(self._pool.shutdown)
