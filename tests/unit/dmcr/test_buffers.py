"""The budget of buffers: never exceeded, first come first served, nothing lost when a waiter gives up."""

from __future__ import annotations

import asyncio
import mmap

from aimodels.dmcr import parts
from aimodels.dmcr.buffers import MIB, Buffers


async def test_whoever_finds_the_budget_spent_waits_for_its_turn() -> None:
    buffers = Buffers(3 * MIB)
    first, second = await buffers.take(2 * MIB), await buffers.take(MIB)
    large = asyncio.create_task(buffers.take(2 * MIB))
    small = asyncio.create_task(buffers.take(MIB))
    await asyncio.sleep(0)
    buffers.give(second)
    await asyncio.sleep(0)
    assert not large.done()
    assert not small.done(), "nobody overtakes the one that waits longer"
    buffers.give(first)
    await large
    await small
    assert buffers.lent == 3 * MIB


async def test_a_buffer_is_used_again_and_begins_at_a_page() -> None:
    buffers = Buffers(8 * MIB)
    first = await buffers.take(2 * MIB)
    first[:5] = b"bytes"
    buffers.give(first)
    again = await buffers.take(2 * MIB)
    assert bytes(again[:5]) == b"bytes", "the same pages"
    assert isinstance(again.obj, mmap.mmap)


async def test_what_is_kept_for_reuse_makes_room_for_other_sizes() -> None:
    buffers = Buffers(4 * MIB)
    for size in (4 * MIB, 2 * MIB, MIB, 4 * MIB):
        buffers.give(await buffers.take(size))
    assert buffers._kept <= 4 * MIB
    assert buffers._kept == sum(size * len(kept) for size, kept in buffers._free.items())


async def test_sizes_of_which_nothing_is_kept_leave_no_trace() -> None:
    buffers = Buffers(2 * MIB)
    for size in range(MIB, MIB + 50):
        buffers.give(await buffers.take(size))
    assert len(buffers._free) <= 2


async def test_a_waiter_that_gives_up_costs_nothing() -> None:
    buffers = Buffers(MIB)
    held = await buffers.take(MIB)
    waiting = asyncio.create_task(buffers.take(MIB))
    await asyncio.sleep(0)
    buffers.give(held)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert buffers.lent == 0
    await buffers.take(MIB)


async def test_a_buffer_larger_than_the_budget_is_lent_alone() -> None:
    buffers = Buffers(MIB)
    held = await buffers.take(2 * MIB)
    waiting = asyncio.create_task(buffers.take(10))
    await asyncio.sleep(0)
    assert not waiting.done()
    buffers.give(held)
    assert len(await waiting) == 10


def test_parts_fit_into_what_a_store_takes() -> None:
    for length in (1, 1 << 20, (1 << 30) - 1, 1 << 30, 500 * 10**9, 5 << 40):
        plan = parts.plan_for(length)
        size = parts.part_size(plan, 1)
        assert size is not None
        assert -(-length // size) <= 10_000
        assert size % (1 << 20) == 0
    assert parts.part_size(parts.plan_for(500 * 10**9), 1) == 53 * MIB
    growing = parts.plan_for(None)
    sizes = [parts.part_size(growing, number) for number in (1, 1000, 1001, 2001, 4001, 10_000, 10_001)]
    assert sizes == [16 * MIB, 16 * MIB, 32 * MIB, 64 * MIB, 128 * MIB, 128 * MIB, None]
    assert {parts.part_size(parts.plan_for(None, uniform=True), number) for number in (1, 10_000)} == {
        128 * MIB
    }


def test_a_crash_costs_at_most_four_parts_and_less_for_small_files() -> None:
    assert (parts.window(16 * MIB) + 1) * 16 * MIB == 64 * MIB
    assert parts.window(8 * MIB) == 2
