"""Blobs down: one stream that goes on after lost connections, or several ranges at once, in order.

What belongs here: the order and the resumption of bytes. What does not: their digest and where they go.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING

from modelio.registry.errors import ProtocolViolation, RegistryError, RegistryUnavailable
from modelio.registry.persistence import Persistence

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from modelio.registry.transport import Transport


class BlobReader:
    """Reads byte ranges of one blob."""

    def __init__(self, transport: Transport, repository: str, digest: str) -> None:
        self._transport = transport
        self._target = f"/v2/{repository}/blobs/{digest}"

    async def size(self) -> int:
        """Return the blob's size as the registry tells it."""
        answer = await self._transport.call("HEAD", self._target, ok={200})
        length = answer.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise ProtocolViolation(f"{self._target}: the registry told no Content-Length")
        return int(length)

    async def stream(self, start: int, stop: int | None) -> AsyncGenerator[bytes, None]:
        """Yield bytes ``[start, stop)`` over one connection at a time, to the end when ``stop`` is None."""
        persistence = Persistence(self._transport.patience)
        while stop is None or start < stop:
            failure: RegistryError | None = None
            try:
                async with aclosing(self._once(start, stop)) as pieces:
                    async for piece in pieces:
                        start += len(piece)
                        yield piece
                        persistence.moved()
            except RegistryError as error:
                failure = error
            if failure is None:
                return
            await persistence.bear(failure)

    async def ordered(
        self, start: int, stop: int, *, readers: int, range_bytes: int
    ) -> AsyncGenerator[bytes, None]:
        """Yield bytes ``[start, stop)`` in order, with up to ``readers`` ranges on their way at once."""
        starts = iter(range(start, stop, range_bytes))
        tasks: deque[asyncio.Task[list[bytes]]] = deque()

        def begin() -> None:
            if (first := next(starts, None)) is not None:
                last = min(first + range_bytes, stop)
                tasks.append(asyncio.create_task(self._collect(first, last)))

        try:
            for _ in range(readers):
                begin()
            while tasks:
                pieces = await tasks[0]
                tasks.popleft()
                begin()
                for piece in pieces:
                    yield piece
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _collect(self, start: int, stop: int) -> list[bytes]:
        async with aclosing(self.stream(start, stop)) as pieces:
            return [piece async for piece in pieces]

    async def _once(self, start: int, stop: int | None) -> AsyncGenerator[bytes, None]:
        """Yield what one request gives; an answer that ends early is RegistryUnavailable."""
        whole = start == 0 and stop is None
        end = "" if stop is None else str(stop - 1)
        headers = {} if whole else {"Range": f"bytes={start}-{end}"}
        ok = {200} if whole else {200, 206}
        async with self._transport.stream("GET", self._target, ok=ok, headers=headers) as response:
            expected = promised(self._target, response.status, response.headers, start, stop)
            async for piece in response.content.iter_any():
                expected -= len(piece)
                if expected < 0:
                    raise ProtocolViolation(f"{self._target}: more bytes came than were promised")
                yield piece
        if expected:
            raise RegistryUnavailable(f"{self._target}: the answer ended {expected} bytes early")


def promised(path: str, status: int, headers: Mapping[str, str], start: int, stop: int | None) -> int:
    """Return how many bytes must come; a server that answers another range is refused.

    A range that is the whole blob may be answered with the whole blob.
    """
    told = headers.get("Content-Length") or ""
    if not told.isdecimal():
        raise ProtocolViolation(f"{path}: the registry told no Content-Length")
    length = int(told)
    said = headers.get("Content-Range") or ""
    partial = status == 206  # noqa: PLR2004 (HTTP's own number)
    if start and not partial:
        raise ProtocolViolation(f"{path}: asked from {start}, the range was ignored")
    if partial and not said.startswith(f"bytes {start}-{start + length - 1}/"):
        raise ProtocolViolation(f"{path}: asked from {start}, was answered {said!r}")
    if stop is not None and length != stop - start:
        raise ProtocolViolation(f"{path}: {stop - start} bytes asked, {length} promised")
    return length
