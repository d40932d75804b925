"""Bytes into a part: hashed in one thread, written in another, while the next ones arrive.

What belongs here: buffers, order, alignment. What does not: where bytes come from.

Three things overlap: receiving fills a buffer, hashing and writing empty two others. Buffers are reused,
since making new ones costs as much as hashing them, and page-aligned, since direct writes need it.
"""

from __future__ import annotations

import asyncio
import errno
import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from aimodels.delivery.copy.volume import ALIGNMENT

if TYPE_CHECKING:
    import hashlib
    from collections.abc import AsyncIterator

BUFFER_BYTES = 4 << 20
_BUFFERS = 5


class Sink:
    """Writes one part after another; buffers and threads are shared by all of them."""

    def __init__(self) -> None:
        self.memory = [mmap.mmap(-1, BUFFER_BYTES) for _ in range(_BUFFERS)]
        self.hashing = ThreadPoolExecutor(1, thread_name_prefix="hash")
        self.writing = ThreadPoolExecutor(1, thread_name_prefix="write")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.hashing.shutdown()
        self.writing.shutdown()

    async def prefix(self, descriptor: int, hasher: hashlib._Hash, most: int) -> int:
        """Hash what an earlier attempt left, cut to whole blocks, and return where to go on."""
        size = min(os.fstat(descriptor).st_size, most) // ALIGNMENT * ALIGNMENT
        os.ftruncate(descriptor, size)
        buffer = self.memory[0]

        def work() -> None:
            with memoryview(buffer) as view:
                at = 0
                while at < size:
                    count = os.preadv(descriptor, [view[: min(BUFFER_BYTES, size - at)]], at)
                    if count == 0:
                        raise OSError(f"a part ended at {at} of {size} bytes")
                    hasher.update(view[:count])
                    at += count

        await asyncio.get_running_loop().run_in_executor(self.hashing, work)
        return size

    async def write(
        self, descriptor: int, start: int, pieces: AsyncIterator[bytes], hasher: hashlib._Hash
    ) -> int:
        """Write all pieces from the block-aligned ``start`` and return the end; durable on return."""
        flight = _Flight(self, descriptor, start, hasher)
        try:
            async for piece in pieces:
                await flight.take(piece)
            await flight.finish()
        finally:
            await flight.land()
        await asyncio.get_running_loop().run_in_executor(self.writing, os.fsync, descriptor)
        return flight.end


class _Flight:
    """Buffers on their way into one part."""

    def __init__(self, sink: Sink, descriptor: int, start: int, hasher: hashlib._Hash) -> None:
        self._free: asyncio.Queue[mmap.mmap] = asyncio.Queue()
        for buffer in sink.memory:
            self._free.put_nowait(buffer)
        self._hashing, self._writing = sink.hashing, sink.writing
        self._descriptor, self._hasher = descriptor, hasher
        self._buffer: mmap.mmap | None = None
        self._used = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._broken = False
        self._error: BaseException | None = None
        self.end = start

    async def take(self, piece: bytes) -> None:
        """Copy a piece into buffers; full ones are sent off."""
        at = 0
        while at < len(piece):
            if self._buffer is None:
                self._buffer, self._used = await self._free.get(), 0
                if self._error is not None:
                    raise self._error
            count = min(len(piece) - at, BUFFER_BYTES - self._used)
            self._buffer[self._used : self._used + count] = memoryview(piece)[at : at + count]
            self._used += count
            at += count
            if self._used == BUFFER_BYTES:
                self._send_off()

    async def finish(self) -> None:
        """Send off what is left; the last block is padded for the disk and cut afterwards."""
        if self._buffer is not None and self._used:
            self._send_off()
        await self.land()
        if self._error is not None:
            raise self._error
        os.ftruncate(self._descriptor, self.end)

    async def land(self) -> None:
        """Wait for every buffer under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _send_off(self) -> None:
        if self._buffer is None:
            return
        task = asyncio.create_task(self._empty(self._buffer, self._used, self.end))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.end += self._used
        self._buffer = None

    async def _empty(self, buffer: mmap.mmap, used: int, at: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            with memoryview(buffer) as view:
                padded = used + -used % ALIGNMENT
                view[used:padded] = bytes(padded - used)
                hashed = loop.run_in_executor(self._hashing, self._hasher.update, view[:used])
                written = loop.run_in_executor(self._writing, self._write, view[:padded], at)
                await asyncio.wait([hashed, written])
                hashed.result()
                written.result()
        except BaseException as error:  # noqa: BLE001 - whoever feeds the flight raises it
            self._error = self._error or error
        finally:
            self._free.put_nowait(buffer)

    def _write(self, view: memoryview, at: int) -> None:
        """Write in the writing thread; after a failure nothing more, or the part would have a hole."""
        if self._broken:
            return
        try:
            _write(self._descriptor, view, at)
        except BaseException:
            self._broken = True
            raise


def _write(descriptor: int, view: memoryview, at: int) -> None:
    """Write all of it; after a short write on from a whole block, which is where direct writes may begin."""
    while view:
        count = os.pwrite(descriptor, view, at)
        if count < len(view):
            count -= count % ALIGNMENT
            if count == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        view, at = view[count:], at + count
