from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from kubekit.controller import Again, Controller, Done
from kubekit.errors import Conflict, NeedsUser, Permanent, TooManyRequests, Transient
from kubekit.queue import KeyedQueue
from opskit.retry import Backoff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Script:
    """A reconcile that answers as it is told, one answer per call, and notes when it was called."""

    def __init__(self, *answers: Done | Again | Exception) -> None:
        self.answers = list(answers)
        self.calls: list[float] = []

    async def __call__(self, _key: str) -> Done | Again:
        self.calls.append(asyncio.get_running_loop().time())
        answer = self.answers.pop(0) if self.answers else Done()
        if isinstance(answer, Exception):
            raise answer
        return answer


async def play(reconcile: Callable[[str], Awaitable[Done | Again]], seconds: float = 1000) -> None:
    queue: KeyedQueue[str] = KeyedQueue("test", backoff=Backoff(jitter=0))
    working = asyncio.create_task(Controller("test", queue, reconcile, workers=2, time_limit=60).run())
    queue.add("a")
    await asyncio.sleep(seconds)
    queue.close()
    await working


def gaps(calls: list[float]) -> list[float]:
    return [round(after - before, 2) for before, after in pairwise(calls)]


@pytest.mark.looptime
async def test_done_is_done_and_again_comes_again() -> None:
    script = Script(Again(30), Again(5), Done())
    await play(script)
    assert gaps(script.calls) == [30, 5]


@pytest.mark.looptime
async def test_passing_errors_back_off_and_success_resets_it() -> None:
    script = Script(
        Transient("NotThere", "yet"),
        Conflict(409, "Conflict", "changed"),
        RuntimeError("ours"),
        Again(10),
        Transient("NotThere", "yet"),
    )
    await play(script)
    assert gaps(script.calls) == [0.5, 1, 2, 10, 0.5]


@pytest.mark.looptime
async def test_an_asked_for_delay_is_honoured() -> None:
    script = Script(
        Transient("Busy", "later", retry_after=20), TooManyRequests(429, "", "slow", retry_after=7)
    )
    await play(script)
    assert gaps(script.calls) == [20, 7]


@pytest.mark.looptime
@pytest.mark.parametrize("error", [Permanent("Broken", "for ever"), NeedsUser("Missing", "make it")])
async def test_errors_that_time_does_not_heal_are_not_retried(error: Exception) -> None:
    script = Script(error)
    await play(script)
    assert len(script.calls) == 1


@pytest.mark.looptime
async def test_a_reconcile_that_hangs_is_ended_and_retried() -> None:
    calls = []

    async def hang(_key: str) -> Done:
        calls.append(asyncio.get_running_loop().time())
        if len(calls) == 1:
            await asyncio.Event().wait()
        return Done()

    await play(hang)
    assert gaps(calls) == [60.5]


@pytest.mark.looptime
async def test_closing_the_queue_lets_begun_work_finish() -> None:
    finished = []

    async def slow(key: str) -> Done:
        await asyncio.sleep(15)
        finished.append(key)
        return Done()

    await play(slow, seconds=1)
    assert finished == ["a"]


@pytest.mark.looptime
async def test_nothing_begins_without_the_permission_to_act() -> None:
    queue: KeyedQueue[str] = KeyedQueue("test")
    script = Script()
    allowed = False
    working = asyncio.create_task(Controller("test", queue, script).run(lambda: allowed))
    queue.add("a")
    await asyncio.sleep(10)
    assert script.calls == []
    allowed = True
    await asyncio.sleep(1)
    assert len(script.calls) == 1
    queue.close()
    await working
