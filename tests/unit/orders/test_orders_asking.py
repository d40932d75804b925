"""Whoever does not answer keeps nobody waiting, and is listened to when he does."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from aiinference.orders.asking import DEADLINE, PATIENCE, Desk, Unanswered

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.looptime
KEY = ("support", "chat")


class Other:
    """Answers after so many seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.asked: Counter[str] = Counter()
        self.called: list[tuple[str, str]] = []
        self.desk: Desk[str] = Desk(self.called.append)

    def call(self, question: str) -> Callable[[], Awaitable[str]]:
        async def answer() -> str:
            self.asked[question] += 1
            await asyncio.sleep(self.seconds)
            return f"{question}!"

        return answer

    async def ask(self, question: str = "who", key: tuple[str, str] = KEY) -> str:
        return await self.desk.ask(key, question, self.call(question))


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_prompt_answer_is_had_at_once_and_asked_anew_next_time() -> None:
    other = Other()
    assert await other.ask() == "who!"
    assert await other.ask() == "who!"
    assert (other.asked["who"], other.called) == (2, [])


async def test_a_late_answer_is_called_out_and_had_without_a_second_question() -> None:
    other = Other()
    other.seconds = 8
    with pytest.raises(Unanswered):
        await other.ask()
    with pytest.raises(Unanswered):
        await other.ask()
    await asyncio.sleep(9)
    assert other.called == [KEY]
    assert await other.ask() == "who!"
    assert other.asked["who"] == 1


async def test_fifty_that_ask_somebody_who_hangs_are_all_done_within_a_second() -> None:
    other, began = Other(), now()
    other.seconds = 3600
    for number in range(50):
        with pytest.raises(Unanswered):
            await other.ask(key=("support", str(number)))
    assert now() - began < 8, "one worker alone"
    assert now() - began < 50 * PATIENCE
    await asyncio.sleep(DEADLINE + 1)
    assert sorted(other.called) == sorted(("support", str(number)) for number in range(50))
    with pytest.raises(TimeoutError):
        await other.ask(key=("support", "1"))


async def test_an_answer_to_an_earlier_question_is_no_answer_to_this_one() -> None:
    other = Other()
    other.seconds = 3
    with pytest.raises(Unanswered):
        await other.ask("before")
    with pytest.raises(Unanswered):
        await other.ask("now")
    await asyncio.sleep(4)
    assert other.called == [KEY]
    assert await other.ask("now") == "now!"


async def test_an_answer_that_nobody_called_for_in_time_is_asked_for_again() -> None:
    other = Other()
    other.seconds = 3
    with pytest.raises(Unanswered):
        await other.ask()
    await asyncio.sleep(60)
    other.seconds = 0
    assert await other.ask() == "who!"
    assert other.asked["who"] == 2


async def test_a_key_that_is_gone_is_called_no_more() -> None:
    other = Other()
    other.seconds = 3
    with pytest.raises(Unanswered):
        await other.ask()
    other.desk.forget(KEY)
    await asyncio.sleep(4)
    assert other.called == []


async def test_no_question_outlives_the_desk() -> None:
    other = Other()
    other.seconds = 3600
    running = asyncio.create_task(other.desk.run())
    with pytest.raises(Unanswered):
        await other.ask()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("ask-")] == []
