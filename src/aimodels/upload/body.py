"""A request's body as it arrives: its head can be looked at first, silence ends it, so does our own end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import Receive


class BodyCut(Exception):
    """The body ended before it was whole."""


class ClientGone(BodyCut):
    """The client closed the connection."""


class Silent(BodyCut):
    """The client sent nothing for too long."""


class Stopped(BodyCut):
    """This process is asked to end."""


class Body:
    """The bytes of one request, once; ``moved`` is the loop's time of the last of them."""

    def __init__(self, receive: Receive, idle: float) -> None:
        self._receive = receive
        self._idle = idle
        self._limit: asyncio.Timeout | None = None
        self._stopped = False
        self._held: list[bytes] = []
        self._skip = 0
        self.more = True
        self.moved = asyncio.get_running_loop().time()

    async def head(self, size: int) -> bytes:
        """Return the first bytes, at least ``size`` of them or all there are; they stay to be read."""
        while self.more and sum(map(len, self._held)) < size:
            self._held.append(await self._next())
        return b"".join(self._held)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the whole body; BodyCut when it ends early."""
        held, self._held = self._held, []
        for piece in held:
            if wanted := self._wanted(piece):
                yield wanted
        while self.more:
            if wanted := self._wanted(await self._next()):
                yield wanted

    def skip(self, count: int) -> None:
        """Leave out so many of the first bytes: they are here already."""
        self._skip = count

    async def drop(self) -> None:
        """Read the body to its end and keep nothing."""
        async for _ in self.pieces():
            pass

    def _wanted(self, piece: bytes) -> bytes:
        dropped = min(self._skip, len(piece))
        self._skip -= dropped
        return piece[dropped:] if dropped else piece

    def stop(self) -> None:
        """Make the reader meet Stopped now."""
        self._stopped = True
        if self._limit and self._limit.when() is not None:
            self._limit.reschedule(asyncio.get_running_loop().time())

    async def _next(self) -> bytes:
        if self._stopped:
            raise Stopped
        try:
            async with asyncio.timeout(self._idle) as self._limit:
                message = await self._receive()
        except TimeoutError:
            raise Stopped if self._stopped else Silent from None
        if message["type"] != "http.request":
            raise ClientGone
        self.more = bool(message.get("more_body", False))
        self.moved = asyncio.get_running_loop().time()
        body: bytes = message.get("body", b"")
        return body
