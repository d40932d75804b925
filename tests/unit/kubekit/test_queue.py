from __future__ import annotations

import asyncio
import random
from typing import Any

import looptime
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kubekit.queue import KeyedQueue, Priority, QueueClosed
from opskit.retry import Backoff

KEYS = st.integers(0, 4)
PRIORITIES = st.sampled_from(Priority)


class QueueAgainstModel(RuleBasedStateMachine):
    """The queue beside a model that is a few sets: what is wanted, what runs, what is due when."""

    def __init__(self) -> None:
        super().__init__()
        self.loop: Any = looptime.new_event_loop()
        self.queue: KeyedQueue[int] = KeyedQueue("model", backoff=Backoff(jitter=0), patience=10)
        self.ready: dict[int, tuple[Priority, float]] = {}
        self.running: set[int] = set()
        self.again: dict[int, Priority] = {}
        self.due: dict[int, tuple[float, Priority]] = {}
        self.failures: dict[int, int] = {}

    def teardown(self) -> None:
        self.call(self.queue.close)
        self.loop.close()

    def call(self, function: Any, *arguments: Any, **named: Any) -> Any:
        async def inside() -> Any:
            return function(*arguments, **named)

        return self.loop.run_until_complete(inside())

    def want(self, key: int, priority: Priority, since: float) -> None:
        if key in self.running:
            self.again[key] = min(priority, self.again.get(key, priority))
        elif key in self.ready:
            old, first = self.ready[key]
            self.ready[key] = (min(old, priority), first)
        else:
            self.ready[key] = (priority, since)

    def later(self, key: int, when: float, priority: Priority) -> None:
        old = self.due.get(key)
        if old is not None and old[0] <= when:
            self.due[key] = (old[0], min(old[1], priority))
        else:
            self.due[key] = (when, priority)

    @rule(key=KEYS, priority=PRIORITIES)
    def add(self, key: int, priority: Priority) -> None:
        self.call(self.queue.add, key, priority)
        self.want(key, priority, self.loop.time())

    @rule(key=KEYS, seconds=st.integers(1, 30), priority=PRIORITIES)
    def add_after(self, key: int, seconds: int, priority: Priority) -> None:
        self.later(key, self.loop.time() + seconds, priority)
        self.call(self.queue.add_after, key, seconds, priority)

    @precondition(lambda self: self.ready)
    @rule()
    def take(self) -> None:
        key = self.loop.run_until_complete(asyncio.wait_for(self.queue.get(), 1))
        assert key not in self.running, "handed out twice at once"
        assert key in self.ready
        priority, since = self.ready.pop(key)
        now = self.loop.time()
        if priority is Priority.LOW and now - since <= 10:
            assert all(other is Priority.LOW for other, _ in self.ready.values()), "low before high"
        self.running.add(key)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), failed=st.booleans())
    def finish(self, data: st.DataObject, failed: bool) -> None:  # noqa: FBT001 drawn by hypothesis
        key = data.draw(st.sampled_from(sorted(self.running)))
        now = self.loop.time()
        if failed:
            self.failures[key] = self.failures.get(key, 0) + 1
            delay = self.call(self.queue.retry, key)
            assert delay == min(0.5 * 2 ** (self.failures[key] - 1), 300)
            self.later(key, now + delay, Priority.LOW)
        else:
            self.call(self.queue.forget, key)
            self.failures.pop(key, None)
        self.call(self.queue.done, key)
        self.running.remove(key)
        if key in self.again:
            self.want(key, self.again.pop(key), now)

    @rule(seconds=st.sampled_from([0.3, 1, 7, 40]))
    def pass_time(self, seconds: float) -> None:
        end = self.loop.time() + seconds
        self.loop.run_until_complete(asyncio.sleep(seconds))
        for key, (when, priority) in sorted(self.due.items(), key=lambda item: item[1][0]):
            if when <= end:
                del self.due[key]
                self.want(key, priority, when)

    @invariant()
    def same_as_the_model(self) -> None:
        assert self.queue.depth == len(self.ready)
        assert self.queue.running == len(self.running)
        oldest = min((since for _, since in self.ready.values()), default=self.loop.time())
        assert self.call(self.queue.oldest_ready_age) == pytest.approx(self.loop.time() - oldest, abs=1e-4)


QueueAgainstModel.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestQueueAgainstModel = QueueAgainstModel.TestCase


async def test_a_key_added_many_times_is_handed_out_once() -> None:
    queue: KeyedQueue[str] = KeyedQueue("once")
    for _ in range(3):
        queue.add("a")
    assert await queue.get() == "a"
    assert queue.depth == 0


async def test_a_cancelled_worker_passes_its_wake_up_on() -> None:
    queue: KeyedQueue[str] = KeyedQueue("cancelled")
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await second == "a"


async def test_closing_ends_every_waiting_worker() -> None:
    queue: KeyedQueue[str] = KeyedQueue("closed")
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.close()
    results = await asyncio.gather(*workers, return_exceptions=True)
    assert [type(result) for result in results] == [QueueClosed] * 3


@pytest.mark.looptime
async def test_back_off_doubles_from_half_a_second_to_five_minutes() -> None:
    queue: KeyedQueue[str] = KeyedQueue("back-off", backoff=Backoff(jitter=0))
    loop = asyncio.get_running_loop()
    seen = []
    queue.add("a")
    for _ in range(12):
        await queue.get()
        before = loop.time()
        queue.retry("a")
        queue.done("a")
        await queue.get()
        seen.append(round(loop.time() - before, 3))
        queue.done("a")
        queue.add("a")
    assert seen == [0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


@pytest.mark.looptime
async def test_an_asked_for_delay_is_never_undercut() -> None:
    queue: KeyedQueue[str] = KeyedQueue("asked")
    assert queue.retry("a", at_least=42) == 42
    started = asyncio.get_running_loop().time()
    await queue.get()
    assert asyncio.get_running_loop().time() - started == pytest.approx(42, abs=0.01)


@pytest.mark.looptime
async def test_low_priority_waits_its_turn_but_not_for_ever() -> None:
    queue: KeyedQueue[str] = KeyedQueue("patience", patience=5)
    queue.add("listed", Priority.LOW)
    taken = []
    for number in range(8):
        queue.add(f"edited-{number}")
        key = await queue.get()
        taken.append(key)
        queue.done(key)
        await asyncio.sleep(1)
    assert taken.index("listed") == 6


def test_a_jitter_never_exceeds_the_whole_delay() -> None:
    backoff = Backoff()
    rng = random.Random(7)
    assert all(0 < backoff.delay(n, rng) <= 300 for n in range(1, 40))
