"""Reading a range of an S3 object window by window, the next one under way while the first is consumed."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Self

from objectstore.port import InvalidRange, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

#: The first window is small so that the first byte comes soon; later ones are worth a request each.
FIRST_WINDOW = 1 << 20
WINDOW = 4 << 20


class Window:
    """A buffer with the bytes of one ranged GET."""

    def __init__(self) -> None:
        self._buffer = memoryview(b"")
        self.filled = self._buffer

    def room(self, size: int) -> memoryview:
        """Return writable space of that size, the same memory again when it suffices."""
        if len(self._buffer) < size:
            self._buffer = memoryview(bytearray(size))
        self.filled = self._buffer[:size]
        return self.filled


class WindowReader:
    """Two windows in turn; ``fetch(start, end, etag, window)`` blocks and returns ``(etag, object size)``."""

    def __init__(
        self,
        fetch: Callable[[int, int, str | None, Window], tuple[str, int]],
        run: Callable[..., Awaitable[Any]],
        start: int,
        length: int | None,
    ) -> None:
        self._fetch = fetch
        self._run = run
        self._start = start
        self._length = length

    async def pieces(self, chunk: int) -> AsyncGenerator[memoryview, None]:
        """Yield the range in pieces; every window is of the same object version or the reading fails."""
        if self._length == 0:
            return
        window, spare = Window(), Window()
        end = self._start + min(FIRST_WINDOW, self._length or FIRST_WINDOW)
        try:
            etag, size = await self._run(self._fetch, self._start, end, None, window)
        except InvalidRange:
            if self._start:
                raise
            return
        last = size if self._length is None else min(size, self._start + self._length)
        at = self._start
        async with _Ahead() as ahead:
            while window.filled:
                at += len(window.filled)
                if at < last:
                    ahead.begin(self._run(self._fetch, at, min(at + WINDOW, last), etag, spare))
                for offset in range(0, len(window.filled), chunk):
                    yield window.filled[offset : offset + chunk]
                if at >= last:
                    return
                await ahead.result()
                window, spare = spare, window
        raise StoreUnavailable("the store sent an empty window of an object that has more bytes")


class _Ahead:
    """The fetch that is under way; whoever stops reading waits for its thread to let go of the buffer."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None

    def begin(self, fetch: Awaitable[Any]) -> None:
        self._task = asyncio.ensure_future(fetch)

    async def result(self) -> Any:
        assert self._task  # noqa: S101 - begun before
        return await self._task

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._task
