"""Bytes into a part: several ranges arrive at once, one thread hashes them in order, one writes them.

What belongs here: buffers, order, alignment. What does not: where bytes come from.

Buffers are reused, since making new ones costs as much as hashing them, and page-aligned, since direct writes
need it.
"""

from __future__ import annotations

import asyncio
import errno
import mmap
import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from aimodels.delivery.copy.volume import ALIGNMENT

if TYPE_CHECKING:
    import hashlib
    from collections.abc import Callable, Coroutine

    #: fills the memory with the bytes from an offset on
    Read = Callable[[int, memoryview], Coroutine[None, None, None]]

BUFFER_BYTES = 8 << 20
AT_ONCE = 4
#: Those that are read into, one that is hashed and written, one that waits for it.
_BUFFERS = AT_ONCE + 2


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

    async def write(self, descriptor: int, span: range, read: Read, hasher: hashlib._Hash) -> None:
        """Read the bytes of ``span``, which begins at a whole block, into the part; durable on return."""
        await _Flight(self, descriptor, read, hasher).run(span)
        await asyncio.get_running_loop().run_in_executor(self.writing, os.fsync, descriptor)


class _Flight:
    """Buffers on their way through: read in any order, then hashed and written in order."""

    def __init__(self, sink: Sink, descriptor: int, read: Read, hasher: hashlib._Hash) -> None:
        self._sink = sink
        self._descriptor, self._read, self._hasher = descriptor, read, hasher
        self._free: asyncio.Queue[mmap.mmap] = asyncio.Queue()
        for buffer in sink.memory:
            self._free.put_nowait(buffer)
        self._reading: deque[tuple[asyncio.Task[None], mmap.mmap, range]] = deque()
        self._emptying: set[asyncio.Task[None]] = set()
        self._broken = False
        self._error: BaseException | None = None

    async def run(self, span: range) -> None:
        """Move all bytes; on an error nothing is under way any more when it is raised."""
        try:
            for start in range(span.start, span.stop, BUFFER_BYTES):
                await self._begin(range(start, min(start + BUFFER_BYTES, span.stop)))
            while self._reading:
                await self._send_off()
        finally:
            for task, _, _ in self._reading:
                task.cancel()
            under_way = [task for task, _, _ in self._reading] + list(self._emptying)
            await asyncio.gather(*under_way, return_exceptions=True)
        if self._error is not None:
            raise self._error
        os.ftruncate(self._descriptor, span.stop)

    async def _begin(self, piece: range) -> None:
        """Start reading a piece into the next free buffer; the oldest one under way gives place."""
        if len(self._reading) == AT_ONCE:
            await self._send_off()
        buffer = await self._free.get()
        if self._error is not None:
            raise self._error
        view = memoryview(buffer)[: len(piece)]
        self._reading.append((asyncio.create_task(self._read(piece.start, view)), buffer, piece))

    async def _send_off(self) -> None:
        """Wait for the oldest piece to be read and hand it to the hashing and the writing thread."""
        task, buffer, piece = self._reading[0]
        await task
        self._reading.popleft()
        emptying = asyncio.create_task(self._empty(buffer, len(piece), piece.start))
        self._emptying.add(emptying)
        emptying.add_done_callback(self._emptying.discard)

    async def _empty(self, buffer: mmap.mmap, used: int, at: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            with memoryview(buffer) as view:
                padded = used + -used % ALIGNMENT
                view[used:padded] = bytes(padded - used)
                hashed = loop.run_in_executor(self._sink.hashing, self._hasher.update, view[:used])
                written = loop.run_in_executor(self._sink.writing, self._write, view[:padded], at)
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
