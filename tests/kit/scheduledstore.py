"""An object store under a test's control: every request is sent first and executed when the test says so.

Between the two anything else may run. The test can execute a request and lose its answer, execute it twice,
answer with an error instead, or never execute it. Code runs unchanged; nothing sleeps.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

from objectstore.memory import MemoryStore
from objectstore.port import ObjectStore, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence

    from objectstore.port import ObjectInfo, PartInfo, StoredObject

_ROUNDS_OF_REST = 8


def at_once(call: Coroutine[Any, Any, Any]) -> Any:
    """Drive a coroutine of the memory store to its end without the event loop: one atomic step."""
    try:
        while True:
            call.send(None)
    except StopIteration as end:
        return end.value


class Sent:
    """A request that the store has not executed yet; ``again`` may execute it any number of times."""

    _serials = itertools.count(1)

    def __init__(self, actor: str, verb: str, key: str, make: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self.serial = next(self._serials)
        self.actor = actor
        self.verb = verb
        self.key = key
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._make = make

    def __repr__(self) -> str:
        return f"{self.actor}: {self.verb} {self.key}"

    @property
    def writes(self) -> bool:
        return self.verb not in ("get", "head", "read", "list", "list_parts", "list_multiparts")

    def again(self) -> Any:
        """Execute without answering: what a network that repeats a request does. Errors are swallowed."""
        try:
            return at_once(self._make())
        except Exception as error:  # noqa: BLE001 - nobody hears it
            return error

    def execute(self) -> None:
        """Execute and answer."""
        try:
            result = at_once(self._make())
        except Exception as error:  # noqa: BLE001 - it is the answer
            self._tell(error=error)
        else:
            self._tell(result)

    def lose_answer(self) -> None:
        """Execute; the caller sees a time-out."""
        self.again()
        self._tell(error=StoreUnavailable(f"no answer to {self}"))

    def fail(self, error: Exception) -> None:
        """Do not execute; the caller sees the error."""
        self._tell(error=error)

    def _tell(self, result: Any = None, *, error: Exception | None = None) -> None:
        if self.answer.done():
            return
        if error is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(result)


class Network:
    """All requests of all actors on their way to one bucket, and what the bucket holds."""

    def __init__(self) -> None:
        self.bucket = MemoryStore()
        self.waiting: list[Sent] = []
        self.schedule: list[str] = []
        self.deleted: set[str] = set()
        self.after_step: Callable[[], None] = lambda: None

    def store(self, actor: str) -> ScheduledStore:
        return ScheduledStore(self, actor)

    async def rest(self) -> None:
        """Let every task run until it waits for the store or has ended."""
        quiet, seen = 0, -1
        while quiet < _ROUNDS_OF_REST:
            await asyncio.sleep(0)
            count = len(self.waiting)
            quiet, seen = (quiet + 1, seen) if count == seen else (0, count)
        self.waiting = [sent for sent in self.waiting if not sent.answer.cancelled()]

    def take(self, sent: Sent, how: str) -> Sent:
        self.waiting.remove(sent)
        self.schedule.append(f"{how} {sent}")
        if sent.verb == "delete":
            self.deleted.add(sent.key)
        return sent

    async def execute(self, sent: Sent) -> None:
        self.take(sent, "run").execute()
        self.after_step()
        await self.rest()

    async def lose_answer(self, sent: Sent) -> None:
        self.take(sent, "lose").lose_answer()
        self.after_step()
        await self.rest()

    async def fail(self, sent: Sent, error: Exception) -> None:
        self.take(sent, "fail").fail(error)
        await self.rest()

    def of(self, actor: str) -> list[Sent]:
        return [sent for sent in self.waiting if sent.actor == actor]

    async def run_until(self, actor: str, verb: str, prefix: str) -> Sent:
        """Execute this actor's requests until one of that verb and key is sent; that one stays waiting."""
        for _ in range(1000):
            await self.rest()
            for sent in self.of(actor):
                if sent.verb == verb and sent.key.startswith(prefix):
                    return sent
            mine = self.of(actor)
            assert mine, f"{actor} ended before {verb} {prefix}: {self.schedule}"
            await self.execute(mine[0])
        raise AssertionError(f"{actor} goes round in circles: {self.schedule[-50:]}")

    async def finish(self, task: Awaitable[Any], actor: str | None = None) -> Any:
        """Execute whatever is sent (by that actor) until the task is done."""
        future = asyncio.ensure_future(task)
        for _ in range(5000):
            await self.rest()
            if future.done():
                return future.result()
            mine = self.waiting if actor is None else self.of(actor)
            assert mine, f"nothing is sent and the task waits: {self.schedule[-20:]}"
            await self.execute(mine[0])
        raise AssertionError(f"the task does not end: {self.schedule[-50:]}")


class ScheduledStore(ObjectStore):
    """One actor's view of the bucket."""

    def __init__(self, network: Network, actor: str) -> None:
        self._network = network
        self._actor = actor
        self._ended = False

    def end(self) -> list[Sent]:
        """The process is gone: it hears no answer and sends nothing more. Return what is still on its way."""
        self._ended = True
        cut = self._network.of(self._actor)
        for sent in cut:
            self._network.waiting.remove(sent)
            sent.answer.cancel()
        return cut

    async def _ask(self, verb: str, key: str, make: Callable[[MemoryStore], Coroutine[Any, Any, Any]]) -> Any:
        if self._ended:
            raise asyncio.CancelledError
        sent = Sent(self._actor, verb, key, lambda: make(self._network.bucket))
        self._network.waiting.append(sent)
        return await sent.answer

    async def get(self, key: str) -> StoredObject:
        found: StoredObject = await self._ask("get", key, lambda bucket: bucket.get(key))
        return found

    async def head(self, key: str) -> ObjectInfo:
        found: ObjectInfo = await self._ask("head", key, lambda bucket: bucket.head(key))
        return found

    async def read(
        self, key: str, start: int = 0, length: int | None = None, *, chunk: int = 1 << 20
    ) -> AsyncGenerator[memoryview, None]:
        async def whole(bucket: MemoryStore) -> list[bytes]:
            return [bytes(piece) async for piece in bucket.read(key, start, length, chunk=chunk)]

        for piece in await self._ask("read", key, whole):
            yield memoryview(piece)

    async def put(
        self,
        key: str,
        body: bytes | bytearray | memoryview,
        *,
        if_match: str | None = None,
        if_none_match: bool = False,
    ) -> str:
        kept = bytes(body)
        etag: str = await self._ask(
            "put",
            key,
            lambda bucket: bucket.put(key, kept, if_match=if_match, if_none_match=if_none_match),
        )
        return etag

    async def delete(self, key: str) -> None:
        await self._ask("delete", key, lambda bucket: bucket.delete(key))

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncGenerator[str, None]:
        async def whole(bucket: MemoryStore) -> list[str]:
            return [key async for key in bucket.list(prefix, start_after=start_after)]

        for key in await self._ask("list", prefix, whole):
            yield key

    async def create_multipart(self, key: str) -> str:
        upload: str = await self._ask("create_multipart", key, lambda bucket: bucket.create_multipart(key))
        return upload

    async def upload_part(
        self, key: str, upload: str, number: int, body: bytes | bytearray | memoryview
    ) -> str:
        kept = bytes(body)
        etag: str = await self._ask(
            "upload_part", key, lambda bucket: bucket.upload_part(key, upload, number, kept)
        )
        return etag

    async def list_parts(self, key: str, upload: str) -> Sequence[PartInfo]:
        parts: Sequence[PartInfo] = await self._ask(
            "list_parts", key, lambda bucket: bucket.list_parts(key, upload)
        )
        return parts

    async def complete_multipart(self, key: str, upload: str, parts: Sequence[PartInfo]) -> str:
        etag: str = await self._ask(
            "complete_multipart", key, lambda bucket: bucket.complete_multipart(key, upload, parts)
        )
        return etag

    async def abort_multipart(self, key: str, upload: str) -> None:
        await self._ask("abort_multipart", key, lambda bucket: bucket.abort_multipart(key, upload))

    async def list_multiparts(self, prefix: str) -> Sequence[tuple[str, str]]:
        found: Sequence[tuple[str, str]] = await self._ask(
            "list_multiparts", prefix, lambda bucket: bucket.list_multiparts(prefix)
        )
        return found

    async def close(self) -> None:
        return
