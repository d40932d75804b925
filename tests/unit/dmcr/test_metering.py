"""Counting: unions over repeated ranges, merging over replicas, a store that fails."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aimodels.dmcr.metering import FLUSH_SECONDS, MOST_BLOBS, Metering, flush_at_end, meter_key
from aimodels.dmcr.principal import Principal
from aimodels.dmcr.swaps import Swaps
from objectstore.memory import MemoryStore
from objectstore.port import StoreDenied
from opskit.clock import ManualClock

JOB = Principal(name="job", transfer="t1", lineage="t1", purpose="publication")
A, B = ("sha256:" + letter * 64 for letter in "ab")


class World:
    def __init__(self, replicas: int = 2) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore()
        self.replicas = [Metering(Swaps(self.store, self.clock)) for _ in range(replicas)]


@pytest.fixture
def world() -> World:
    return World()


async def test_repeated_ranges_count_once(world: World) -> None:
    here, there = world.replicas
    here.delivered(JOB, A, 0, 60)
    there.delivered(JOB, A, 40, 100)
    there.delivered(JOB, B, 0, 10)
    here.delivered(JOB, A, 0, 60)
    await here.flush()
    await there.flush()
    assert (await there.totals("t1")).delivered == 110
    assert (await here.totals("t1")).delivered == 110


async def test_offsets_add_up_over_sessions_and_never_go_back(world: World) -> None:
    here, there = world.replicas
    here.received(JOB, 100)
    here.journaled(JOB, "s1", 64)
    here.journaled(JOB, "s1", 32)
    await world.clock.advance(1)
    there.received(JOB, 50)
    there.journaled(JOB, "s2", 48)
    await here.flush()
    await there.flush()
    totals = await here.totals("t1")
    assert (totals.received, totals.offset, totals.latest_offset) == (150, 112, 48)
    assert totals.at == int(world.clock.now().timestamp())


async def test_what_was_stored_before_counts_and_is_no_movement(world: World) -> None:
    here, there = world.replicas
    here.resumed(JOB, "s1", 64)
    await here.flush()
    totals = await there.totals("t1")
    assert (totals.received, totals.offset, totals.at) == (0, 64, None)


async def test_speed_is_over_all_replicas_from_the_first_byte_to_the_last(world: World) -> None:
    here, there = world.replicas
    assert (await here.totals("t1")).bytes_per_second() is None
    here.received(JOB, 100)
    await here.flush()
    await world.clock.advance(10)
    there.delivered(JOB, A, 0, 300)
    await there.flush()
    assert (await here.totals("t1")).bytes_per_second() == 40


async def test_restart_continues_from_the_bucket(world: World) -> None:
    world.replicas[0].received(JOB, 70)
    world.replicas[0].delivered(JOB, A, 0, 70)
    await world.replicas[0].flush()
    world.replicas[0].delivered(JOB, A, 70, 90)
    fresh = Metering(Swaps(world.store, world.clock))
    assert (await fresh.totals("t1")).delivered == 70
    fresh.received(JOB, 5)
    assert (await fresh.totals("t1")).received == 75


async def test_only_what_changed_is_written(world: World) -> None:
    here = world.replicas[0]
    here.received(JOB, 1)
    await here.flush()
    etag = (await world.store.head(meter_key("t1"))).etag
    await here.flush()
    await here.totals("t1")
    assert (await world.store.head(meter_key("t1"))).etag == etag
    here.received(JOB, 1)
    await here.flush()
    assert (await world.store.head(meter_key("t1"))).etag != etag


async def test_counting_before_the_first_flush_is_seen_at_once(world: World) -> None:
    world.replicas[0].delivered(JOB, A, 0, 5)
    assert (await world.replicas[0].totals("t1")).delivered == 5
    assert (await world.replicas[1].totals("t1")).delivered == 0


async def test_callers_without_a_transfer_have_no_account(world: World) -> None:
    here = world.replicas[0]
    here.received(Principal(name="everyone", catalogue=True), 5)
    await here.flush()
    assert [key async for key in world.store.list("")] == []


class Refusing(MemoryStore):
    refusing = True

    async def put(self, *args: object, **kwargs: object) -> str:
        if self.refusing:
            raise StoreDenied("no")
        return await super().put(*args, **kwargs)  # type: ignore[arg-type]


async def test_store_that_refuses_costs_nothing_but_time() -> None:
    clock, store = ManualClock(), Refusing()
    metering = Metering(Swaps(store, clock))
    running = asyncio.create_task(metering.run())
    metering.received(JOB, 5)
    await clock.until_sleeping()
    await clock.advance(FLUSH_SECONDS)
    await clock.until_sleeping()
    assert [key async for key in store.list("")] == []
    store.refusing = False
    metering.received(JOB, 6)
    await flush_at_end(metering, running)
    assert (await Metering(Swaps(store, clock)).totals("t1")).received == 11


async def test_many_blobs_are_bounded(world: World) -> None:
    here = world.replicas[0]
    for number in range(MOST_BLOBS + 10):
        here.delivered(JOB, f"sha256:{number:064x}", 0, 2)
    assert (await here.totals("t1")).delivered == 2 * (MOST_BLOBS + 10)


STEP = st.tuples(
    st.integers(0, 1), st.sampled_from([A, B]), st.integers(0, 50), st.integers(1, 50), st.booleans()
)


@given(st.lists(STEP, max_size=30))
def test_any_order_of_flushes_gives_the_union(steps: list[tuple[int, str, int, int, bool]]) -> None:
    async def run() -> None:
        world = World()
        for replica, digest, start, length, flush in steps:
            world.replicas[replica].delivered(JOB, digest, start, start + length)
            if flush:
                await world.replicas[replica].flush()
        for metering in itertools.chain(world.replicas, world.replicas):
            await metering.flush()
        covered = {(digest, at) for _, digest, start, n, _ in steps for at in range(start, start + n)}
        for metering in world.replicas:
            assert (await metering.totals("t1")).delivered == len(covered)

    asyncio.run(run())
