"""Who gets a buffer when there are not enough: shares, slow ones, and that neither kind starves."""

from __future__ import annotations

import asyncio
from itertools import cycle

import pytest

from aimodels.dmcr.buffers import MIB, Buffers
from aimodels.dmcr.shares import FILL_SECONDS, HOLD_SECONDS

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

PART = 8 * MIB


class Upload:
    """A writer whose client sends at a speed: it fills one buffer after the other."""

    def __init__(self, buffers: Buffers, account: str, speed: float) -> None:
        self.account = account
        self.spilled = 0
        self.filled = 0
        self._buffers = buffers
        self._speed = speed
        self._buffer: memoryview | None = None
        self._since = 0.0
        self._held = 0.0
        self._asked = asyncio.Event()

    @property
    def came(self) -> int:
        return int(self._speed * (asyncio.get_running_loop().time() - self._since))

    def spill(self) -> bool:
        self._asked.set()
        return True

    async def run(self, parts: int) -> None:
        """Fill so many buffers; what was spilled before counts."""
        left = float(PART)
        while self.filled < parts:
            buffer = await self._buffers.take(PART, self)
            self._since = asyncio.get_running_loop().time()
            self._asked.clear()
            try:
                async with asyncio.timeout(left / self._speed):
                    await self._asked.wait()
            except TimeoutError:
                self._buffers.filled(self)
                self.filled, left = self.filled + 1, float(PART)
            else:
                self.spilled, left = self.spilled + 1, max(left - self.came, 1)
            finally:
                self._buffers.give(buffer)


async def test_nobody_is_asked_for_anything_while_there_is_memory() -> None:
    buffers = Buffers(2 * PART)
    modem = Upload(buffers, "modem", 7000)
    await modem.run(2)
    assert modem.spilled == 0


async def test_a_fast_upload_gets_its_memory_however_many_slow_ones_there_are() -> None:
    buffers = Buffers(8 * PART)
    slow = [asyncio.create_task(Upload(buffers, f"slow{n}", 1).run(1)) for n in range(40)]
    await asyncio.sleep(0)
    fast = Upload(buffers, "fast", 50 * MIB)
    begun = asyncio.get_running_loop().time()
    await fast.run(1)
    met = asyncio.get_running_loop().time()
    assert met - begun <= (40 / 8 + 1) * (HOLD_SECONDS + 1), "behind each slow one once, and no more"
    await fast.run(201)
    assert asyncio.get_running_loop().time() - met < 1.2 * 200 * PART / (50 * MIB)
    assert fast.spilled == 0
    await _end(slow)


async def test_slow_uploads_move_beside_fast_ones() -> None:
    buffers = Buffers(4 * PART)
    fast = [Upload(buffers, f"fast{n}", 2 * MIB) for n in range(8)]
    slow = [Upload(buffers, f"slow{n}", 50_000) for n in range(2)]
    tasks = [asyncio.create_task(one.run(10**6)) for one in (*fast, *slow)]
    await asyncio.sleep(1200)
    assert all(one.filled >= 1 for one in slow), [one.filled for one in slow]
    assert min(one.filled for one in fast) > 0.8 * max(one.filled for one in fast)
    turns = 1200 / FILL_SECONDS
    assert sum(one.spilled for one in slow) < 1.5 * turns, "their turns in their share are long ones"
    await _end(tasks)


async def test_who_is_fast_enough_keeps_the_buffer() -> None:
    buffers = Buffers(PART)
    steady = Upload(buffers, "steady", 1.1 * PART / FILL_SECONDS)
    other = Upload(buffers, "other", PART)
    tasks = [asyncio.create_task(one.run(1)) for one in (steady, other)]
    await asyncio.gather(*tasks)
    assert (steady.spilled, other.spilled) == (0, 0)


async def test_an_account_with_many_uploads_has_one_share() -> None:
    buffers = Buffers(8 * PART)
    many = [Upload(buffers, "many", MIB) for _ in range(40)]
    one = Upload(buffers, "one", MIB)
    tasks = [asyncio.create_task(each.run(10**6)) for each in many]
    await asyncio.sleep(0)
    single = asyncio.create_task(one.run(20))
    begun = asyncio.get_running_loop().time()
    await single
    took = asyncio.get_running_loop().time() - begun
    assert took <= 20 * 2 * PART / MIB, (
        "for each of its buffers it waits for one of the others, not for forty"
    )
    await _end(tasks)


async def test_only_as_much_is_asked_back_as_others_wait_for() -> None:
    buffers = Buffers(8 * PART)
    slow = [Upload(buffers, f"slow{n}", n + 1) for n in range(8)]
    tasks = [asyncio.create_task(one.run(1)) for one in slow]
    await asyncio.sleep(60)
    fast = Upload(buffers, "fast", 4 * PART)
    await fast.run(1)
    assert [one.spilled for one in slow] == [1] + [0] * 7, "the slowest one"
    await _end(tasks)


async def test_whoever_leaves_the_queue_leaves_nothing_behind() -> None:
    buffers = Buffers(4 * PART)
    for at, speed in zip(range(100), cycle([1, MIB, 50 * MIB]), strict=False):
        tasks = [asyncio.create_task(Upload(buffers, f"u{at}-{n}", speed).run(3)) for n in range(10)]
        await asyncio.sleep(at % 7 * HOLD_SECONDS / 3)
        await _end(tasks)
    assert (buffers.contended, buffers._shares._filling, buffers._shares._asked) == (False, {}, {})


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
