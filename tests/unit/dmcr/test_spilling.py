"""A slow client's buffer is asked back: its bytes are safe, the upload goes on, nothing told is lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aimodels.dmcr import ingest as ingests
from aimodels.dmcr import layout, parts
from aimodels.dmcr.ingest import Ingest
from aimodels.dmcr.layout import Session, session_key
from aimodels.dmcr.problems import RangeRefused
from objectstore.port import StoreUnavailable
from tests.kit.dmcr import digest_of
from tests.kit.dmcrworld import NAME, TINY_PARTS, World
from tests.kit.scheduledstore import at_once

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from aimodels.dmcr.buffers import Buffers

DATA = bytes(range(200))
UPLOADS = f"/v2/{NAME}/blobs/uploads/"


@pytest.fixture(autouse=True)
def _tiny_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "plan_for", lambda _length, **_: TINY_PARTS)


class Writer:
    """One request that writes, and everything that it needs of a replica."""

    def __init__(self) -> None:
        self.world = World()
        self.replica = self.world.replica("one")
        self.location = ""
        self.ingest: Ingest

    @classmethod
    async def begun(cls, *pieces: bytes) -> Writer:
        """Return a writer whose client has sent these pieces and is waited for."""
        writer = cls()
        opened = await writer.world.do(writer.replica, "POST", UPLOADS)
        writer.location = opened.headers["location"]
        sid = writer.location.rpartition("/")[2].partition(".")[0]
        sessions = writer.replica.registry.sessions
        upload = await writer.run(sessions.find(sid, 1, writer.world.record()))
        writer.ingest = Ingest(writer.replica.registry.engine, upload, plan=TINY_PARTS)
        await writer.run(writer.ingest.start())
        for piece in pieces:
            await writer.run(writer.ingest.write(piece))
        return writer

    async def run(self, call: Coroutine[Any, Any, Any]) -> Any:
        return await self.world.network.finish(call)

    async def spill(self) -> None:
        assert self.ingest.spill()
        task = self.ingest._spilling
        assert task is not None
        await self.world.network.finish(asyncio.wait({task}))

    @property
    def buffers(self) -> Buffers:
        return self.replica.registry.engine.buffers

    def stored(self) -> Session:
        sid = self.ingest.upload.sid
        found = self.world.load(session_key(sid), Session)
        assert found is not None
        return found

    async def contend(self) -> tuple[memoryview, asyncio.Task[memoryview]]:
        """Spend all memory, and have somebody wait for more."""
        held = await self.buffers.take(self.buffers.budget)
        waiting = asyncio.create_task(self.buffers.take(1))
        await asyncio.sleep(0)
        return held, waiting

    async def closed(self) -> bool:
        """Commit what is here as a blob and tell whether it comes back whole."""
        await self.run(self.replica.registry.committer.close(self.ingest, digest_of(DATA)))
        await self.run(self.ingest.release())
        answer = await self.world.do(self.replica, "GET", f"/v2/{NAME}/blobs/{digest_of(DATA)}")
        return answer.body == DATA and not self.world.keys(layout.tail_key(self.ingest.upload.sid))


async def test_a_spilled_buffer_is_free_and_its_bytes_are_durable() -> None:
    writer = await Writer.begun(DATA[:100])
    await writer.spill()
    assert writer.buffers.lent == 0
    session = writer.stored()
    assert (session.offset, session.tail and session.tail.size, len(session.parts)) == (100, 36, 1)


@pytest.mark.parametrize("at", [1, 63, 64, 65, 100, 128, 199])
async def test_the_upload_goes_on_as_if_nothing_had_been(at: int) -> None:
    writer = await Writer.begun(DATA[:at])
    if at % 64:
        await writer.spill()
        assert not writer.ingest.spill(), "there is nothing more to give"
    await writer.run(writer.ingest.write(DATA[at:]))
    assert writer.buffers.lent > 0
    assert await writer.closed()
    assert writer.buffers.lent == 0


async def test_it_is_spilled_again_and_again() -> None:
    writer = await Writer.begun()
    for at in range(len(DATA)):
        await writer.run(writer.ingest.write(DATA[at : at + 1]))
        if (at + 1) % 64:
            await writer.spill()
    assert await writer.closed()


async def test_a_request_that_ends_spilled_leaves_the_tail_as_it_is() -> None:
    writer = await Writer.begun(DATA[:100])
    await writer.spill()
    puts = len([line for line in writer.world.network.schedule if " put " in line])
    await writer.run(writer.ingest.settle())
    await writer.run(writer.ingest.release())
    assert len([line for line in writer.world.network.schedule if " put " in line]) == puts
    answer = await writer.world.do(writer.replica, "PATCH", writer.location, DATA[100:])
    assert answer.headers["dmcr-offset"] == str(len(DATA))


async def test_a_few_bytes_need_no_memory_that_others_wait_for() -> None:
    writer = await Writer.begun(DATA[:100])
    await writer.spill()
    held, waiting = await writer.contend()
    for at in range(100, 150):
        await writer.run(writer.ingest.write(DATA[at : at + 1]))
    writer.buffers.give(held)
    writer.buffers.give(await waiting)
    await writer.run(writer.ingest.write(DATA[150:]))
    assert await writer.closed()


@pytest.mark.parametrize("at", [100, 118, 120, 127])
async def test_bytes_kept_aside_are_part_of_a_request_that_ends_well(at: int) -> None:
    """With them the bytes fill a part, or go beyond it."""
    writer = await Writer.begun(DATA[:at])
    await writer.spill()
    held, waiting = await writer.contend()
    await writer.run(writer.ingest.write(DATA[at : at + 10]))
    settling = asyncio.create_task(writer.ingest.settle())
    await writer.world.network.rest()
    assert not settling.done()
    writer.buffers.give(held)
    writer.buffers.give(await waiting)
    await writer.run(settling)  # type: ignore[arg-type]
    await writer.run(writer.ingest.release())
    assert (writer.stored().offset, writer.buffers.lent) == (at + 10, 0)
    answer = await writer.world.do(writer.replica, "PATCH", writer.location, DATA[at + 10 :])
    assert answer.status == 202
    closed = await writer.world.do(writer.replica, "PUT", f"{writer.location}?digest={digest_of(DATA)}")
    assert closed.status == 201


async def test_a_request_that_is_cut_waits_for_no_memory_and_loses_nothing_that_was_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = await Writer.begun(DATA[:100])
    await writer.spill()
    held, waiting = await writer.contend()
    await writer.run(writer.ingest.write(DATA[100:110]))
    monkeypatch.setattr(ingests, "_ASIDE", 0)
    queued = asyncio.create_task(writer.ingest.write(DATA[110:120]))
    await writer.world.network.rest()
    queued.cancel()
    await asyncio.gather(queued, return_exceptions=True)
    await writer.run(writer.ingest.settle(cut=True))
    await writer.run(writer.ingest.release())
    assert writer.stored().offset == 100
    writer.buffers.give(held)
    writer.buffers.give(await waiting)
    assert writer.buffers.lent == 0
    answer = await writer.world.do(writer.replica, "PATCH", writer.location, DATA[100:])
    assert answer.headers["dmcr-offset"] == str(len(DATA))


@pytest.mark.parametrize("steps", range(5))
async def test_being_cut_while_the_bytes_come_back_loses_none(steps: int) -> None:
    writer = await Writer.begun(DATA[:100])
    await writer.spill()
    coming = asyncio.create_task(writer.ingest.write(DATA[100:110]))
    for _ in range(steps):
        await writer.world.network.rest()
        if writer.world.network.waiting:
            await writer.world.network.execute(writer.world.network.waiting[0])
    coming.cancel()
    await asyncio.gather(coming, return_exceptions=True)
    await writer.world.network.rest()
    await writer.run(writer.ingest.settle(cut=True))
    await writer.run(writer.ingest.release())
    assert writer.stored().offset in (100, 110)
    assert writer.buffers.lent == 0


async def test_a_tail_that_is_not_there_any_more_is_told_with_the_offset() -> None:
    writer = await Writer.begun(DATA[:100])
    await writer.spill()
    at_once(writer.world.network.bucket.delete(layout.tail_key(writer.ingest.upload.sid)))
    with pytest.raises(RangeRefused) as caught:
        await writer.run(writer.ingest.write(DATA[100:]))
    assert caught.value.headers["Dmcr-Offset"] == "64"
    await writer.run(writer.ingest.release())
    assert writer.buffers.lent == 0


async def test_a_store_that_fails_costs_the_request_and_not_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = await Writer.begun(DATA[:100])

    async def fails(*_: object) -> None:
        raise StoreUnavailable("down")

    monkeypatch.setattr(writer.ingest.flight, "write_tail", fails)
    await writer.spill()
    assert writer.buffers.lent == 0
    with pytest.raises(StoreUnavailable):
        await writer.run(writer.ingest.write(DATA[100:]))
    await writer.run(writer.ingest.release())


async def test_who_is_being_written_is_not_asked() -> None:
    writer = await Writer.begun(DATA[:10])
    sending = asyncio.create_task(writer.ingest.write(DATA[10:]))
    await writer.world.network.rest()
    assert not sending.done()
    assert not writer.ingest.spill()
    await writer.run(sending)  # type: ignore[arg-type]
    assert writer.ingest.spill()
    assert await writer.closed(), "a close waits for the spilling and brings the bytes back"


@pytest.mark.parametrize("at", [100, 120, 127])
async def test_a_close_has_the_bytes_kept_aside_too(at: int) -> None:
    writer = await Writer.begun(DATA[:at])
    await writer.spill()
    held, waiting = await writer.contend()
    await writer.run(writer.ingest.write(DATA[at:]))
    writer.buffers.give(held)
    writer.buffers.give(await waiting)
    assert await writer.closed()


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    steps=st.lists(
        st.tuples(st.integers(1, 70), st.sampled_from(["", "spill", "contend", "free"])),
        min_size=1,
        max_size=25,
    ),
    aside=st.sampled_from([0, 5, 200]),
)
def test_whatever_happens_between_its_bytes_an_upload_is_whole(
    steps: list[tuple[int, str]], aside: int
) -> None:
    async def run() -> None:
        writer, short = await Writer.begun(), Shortage()
        at = 0
        for size, action in steps:
            await short.through(writer, writer.ingest.write(DATA[at : at + size]))
            at = min(at + size, len(DATA))
            if action == "spill" and writer.ingest.spill() and writer.ingest._spilling:
                await writer.world.network.finish(asyncio.wait({writer.ingest._spilling}))
            elif action == "contend" and writer.buffers.lent == 0:
                short.held, short.waiting = await writer.contend()
            elif action == "free":
                await short.end(writer)
        await short.through(writer, writer.ingest.write(DATA[at:]))
        await short.end(writer)
        assert await writer.closed()
        assert writer.buffers.lent == 0

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ingests, "_ASIDE", aside)
        asyncio.run(run())


class Shortage:
    """Memory that somebody else holds, while somebody waits for it."""

    held: memoryview | None = None
    waiting: asyncio.Task[memoryview] | None = None

    async def through(self, writer: Writer, call: Coroutine[Any, Any, Any]) -> None:
        """Run a call; when nothing but memory helps, it comes."""
        task = asyncio.ensure_future(call)
        while True:
            await writer.world.network.rest()
            if task.done():
                task.result()
                return
            if writer.world.network.waiting:
                await writer.world.network.execute(writer.world.network.waiting[0])
            else:
                await self.end(writer)

    async def end(self, writer: Writer) -> None:
        held, waiting, self.held, self.waiting = self.held, self.waiting, None, None
        if held is not None and waiting is not None:
            writer.buffers.give(held)
            writer.buffers.give(await waiting)
