"""Parts on their way into the store, the digest in order, and the journal that follows them.

What belongs here: everything that happens to a full buffer. What does not: filling it (``ingest``).

A part is hashed (in order, in a thread) and stored at the same time; when both are done its buffer is free,
and when every part before it is stored too the session is swapped: that is the journal. At most
``parts.window`` parts are on their way, which bounds what a crash costs.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec.structs import replace

from aimodels.dmcr import hashing, parts
from aimodels.dmcr.layout import HashState, Session, StoredPart, Tail, data_key, tail_key
from aimodels.dmcr.sessions import Upload, superseded, unknown
from objectstore.port import NoSuchKey, ObjectStoreError, PreconditionFailed
from opskit.retry import Backoff, retrying

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Executor

    from aimodels.dmcr.buffers import Buffers
    from aimodels.dmcr.sessions import Sessions
    from objectstore.port import ObjectStore
    from opskit.clock import Clock

T = TypeVar("T")

_STORE_TRIES = 5
_STORE_BACKOFF = Backoff(first=0.2, most=5.0, jitter=1.0)


class Engine(NamedTuple):
    """What all uploads of a process share."""

    store: ObjectStore
    sessions: Sessions
    buffers: Buffers
    clock: Clock
    threads: Executor


class Flight:
    """The parts of one upload that one request sends, from the journal's end on."""

    def __init__(
        self,
        engine: Engine,
        upload: Upload,
        begun: Session | None,
        algorithm: str,
        journaled: Callable[[int], None],
    ) -> None:
        """``begun`` is written with the first swap, which comes before the first byte under the data key."""
        self.upload = upload
        self._begun = begun
        self.failure: Exception | None = None
        self._engine = engine
        self._journaled = journaled
        self._algorithm = next(iter(self.session.hash), algorithm)
        self._hash = _restored(self.session, self._algorithm)
        self._hashing = asyncio.Lock()  # first come, first served: parts are hashed in order
        self._multipart = asyncio.Lock()
        self._upload_id = upload.session.upload
        self._journal = asyncio.Lock()
        self._ready: dict[int, tuple[StoredPart, HashState | None]] = {}
        self._flying: set[asyncio.Task[None]] = set()
        self._slots: asyncio.Semaphore | None = None

    @property
    def session(self) -> Session:
        """Return the session as it was swapped last, or as the first swap will write it."""
        return self._begun or self.upload.session

    @property
    def whole(self) -> int:
        """Return how many bytes the journaled parts hold."""
        return sum(part.size for part in self.session.parts)

    async def send(self, number: int, buffer: memoryview) -> None:
        """Send a full buffer off; returns when it may, which waits for the parts before it."""
        if self._slots is None:
            self._slots = asyncio.Semaphore(parts.window(len(buffer)))
        await self._slots.acquire()
        task = asyncio.create_task(self._fly(number, buffer, self._slots))
        self._flying.add(task)
        task.add_done_callback(self._flying.discard)

    async def landed(self) -> None:
        """Wait until no part is on its way; ``failure`` tells how it went."""
        while self._flying:
            await asyncio.wait(self._flying)

    async def digest(self, rest: memoryview) -> str | None:
        """Return the digest of everything with ``rest`` at the end; None when its state was lost. Once."""
        if self.session.digest is not None and not rest:
            return self.session.digest
        if self._hash is None:
            return None
        await self._in_thread(self._hash, rest)
        return self._hash.digest()

    async def store_whole(self, body: memoryview) -> None:
        """Store an upload of less than one part in one piece, where nothing is yet.

        An older attempt that was held up may still send its bytes to the same key: whoever is second must not
        replace what a pointer may name by then.
        """
        await self._begin()
        key = self._data_key()
        try:
            await self._retried(lambda: self._engine.store.put(key, body, if_none_match=True))
        except PreconditionFailed:
            if not await self._holds(key, body):
                await self._engine.sessions.void(self.upload)
                raise superseded(None) from None

    async def store_last(self, number: int, body: memoryview, digest: str | None) -> None:
        """Store the last part, shorter than the others, and journal it with the digest of everything."""
        self._ready[number] = (await self._store(number, body), None)
        await self._write_journal(digest)

    async def write_tail(self, body: memoryview) -> None:
        """Make the bytes after the last whole part durable, then name them in the session."""
        etag = await self._retried(lambda: self._engine.store.put(tail_key(self.upload.sid), body))
        tail = Tail(etag=etag, size=len(body))
        await self._swap(replace(self.session, tail=tail, offset=self.whole + len(body)))

    async def drop_tail(self) -> None:
        """Go back to the last whole part, since the bytes after it are not there any more."""
        await self._swap(replace(self.session, tail=None, offset=self.whole))

    async def _fly(self, number: int, buffer: memoryview, slots: asyncio.Semaphore) -> None:
        """Take one part the whole way; what goes wrong is kept for the writer."""
        try:
            hashed, stored = await asyncio.gather(
                self._hash_part(buffer), self._store(number, buffer), return_exceptions=True
            )
            self._engine.buffers.give(buffer)
            self._ready[number] = (_good(stored), _good(hashed))
            await self._write_journal(None)
        except Exception as error:  # noqa: BLE001 - the writer raises it
            self.failure = self.failure or error
        finally:
            slots.release()

    async def _hash_part(self, buffer: memoryview) -> HashState | None:
        async with self._hashing:
            if self._hash is None:
                return None
            await self._in_thread(self._hash, buffer)
            return self._hash.state()

    async def _in_thread(self, running: hashing.RunningHash, view: memoryview) -> None:
        await asyncio.get_running_loop().run_in_executor(self._engine.threads, running.update, view)

    async def _store(self, number: int, body: memoryview) -> StoredPart:
        async with self._multipart:
            if self._upload_id is None:
                await self._begin()
                self._upload_id = await self._retried(
                    lambda: self._engine.store.create_multipart(self._data_key())
                )
        upload = self._upload_id
        try:
            etag = await self._retried(
                lambda: self._engine.store.upload_part(self._data_key(), upload, number, body)
            )
        except NoSuchKey:
            raise unknown() from None
        return StoredPart(n=number, size=len(body), etag=etag)

    async def _write_journal(self, digest: str | None) -> None:
        """Swap the session up to the last part before which none is missing; often one swap for several."""
        async with self._journal:
            done = list(self.session.parts)
            state: HashState | None = None
            while (ready := self._ready.pop(len(done) + 1, None)) is not None:
                done.append(ready[0])
                state = ready[1]
            if len(done) > len(self.session.parts):
                await self._swap(
                    replace(
                        self.session,
                        parts=tuple(done),
                        upload=self._upload_id,
                        offset=sum(part.size for part in done),
                        hash={self._algorithm: state} if state is not None else {},
                        tail=None,
                        digest=digest,
                    )
                )

    async def _holds(self, key: str, body: memoryview) -> bool:
        """Tell whether the object is exactly these bytes."""
        at = 0
        async for piece in self._engine.store.read(key):
            if piece != body[at : at + len(piece)]:
                return False
            at += len(piece)
        return at == len(body)

    async def _begin(self) -> None:
        """Make the data key known before anything lies there."""
        if self._begun is not None:
            await self._swap(self._begun)

    async def _swap(self, session: Session) -> None:
        self.upload = await self._engine.sessions.write(self.upload, session)
        self._begun = None
        self._journaled(session.offset)

    async def _retried(self, call: Callable[[], Awaitable[T]]) -> T:
        return await retrying(
            call,
            retry_on=lambda error: isinstance(error, ObjectStoreError) and error.retriable,
            backoff=_STORE_BACKOFF,
            attempts=_STORE_TRIES,
            clock=self._engine.clock,
        )

    def _data_key(self) -> str:
        if self.session.data is None:
            raise AssertionError("bytes come after the session was begun")
        return data_key(self.session.data)


def _good(result: T | BaseException) -> T:
    """Return what a gathered call returned, or raise what it raised."""
    if isinstance(result, BaseException):
        raise result
    return result


def _restored(session: Session, algorithm: str) -> hashing.RunningHash | None:
    """Return the digest of the journaled parts, ready for more; None when its state was not saved."""
    state = session.hash.get(algorithm)
    if state is not None:
        return hashing.resume(algorithm, state)
    return None if session.parts else hashing.start(algorithm)
