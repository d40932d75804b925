"""Who is asked when, and what is remembered."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Self, cast

import msgspec
import pytest

from aiinference.orders.probing import Probing, Target
from aiinference.probes.client import Outcome
from aiinference.probes.health import Health
from aiinference.probes.questions import question
from kubekit.resources import StatefulSet
from opskit.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiinference.probes.client import Prober
    from aiinference.probes.questions import Question

KEY = ("support", "chat")
TARGET = Target(
    order="u1",
    launch="l1",
    question=question("Chat", "qwen"),
    addresses=("10.0.0.1",),
    launched=True,
    key="k",
)


class Asked:
    """Answers as the test says, by address; anything else is well."""

    def __init__(self) -> None:
        #: ``{}`` in a text is another word each time
        self.wrong: dict[str, str] = {}
        self.busy: set[str] = set()
        self.seen: list[tuple[str, str | None]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def ask(self, host: str, _port: int, _question: Question, key: str | None) -> Outcome:
        self.seen.append((host, key))
        return Outcome(self.wrong.get(host, "").format(len(self.seen)), 0.1, busy=host in self.busy)


class World:
    def __init__(self) -> None:
        self.clock, self.asked, self.changes = ManualClock(), Asked(), list[tuple[str, str]]()
        self.probing = Probing(self.clock, self.changes.append, cast("Prober", self.asked))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[World]:
        task = asyncio.create_task(self.probing.run())
        await self.clock.advance(0)
        yield self
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def pass_by(self, seconds: float) -> None:
        """Let time pass in steps that every pause fits into."""
        for _ in range(int(seconds)):
            await self.clock.advance(1)

    def health(self, order: str = "u1") -> Health | None:
        return self.probing.health(KEY, order)


async def test_the_first_answer_is_news_and_the_next_are_none() -> None:
    async with World().running() as world:
        world.probing.follow(KEY, TARGET, Health())
        await world.pass_by(120)
        assert world.changes == [KEY]
        assert world.asked.seen[0] == ("10.0.0.1", "k")
        assert 3 <= len(world.asked.seen) <= 6
        found = world.health()
        assert found is not None
        assert found.well


@pytest.mark.parametrize("known", [Health(), Health(well=True), Health(well=False)])
async def test_an_answer_that_quotes_something_else_each_time_is_news_once(known: Health) -> None:
    async with World().running() as world:
        world.asked.wrong["10.0.0.1"] = "GET /v1/models was answered, but it is wrong: {{id: {}}}"
        world.probing.follow(KEY, TARGET, known)
        await world.pass_by(300)
        assert len(world.asked.seen) > 20
        assert len(world.changes) <= 2
        before = len(world.changes)
        world.asked.wrong["10.0.0.1"] = "GET /v1/models was answered with status 500: {}"
        await world.pass_by(60)
        assert len(world.changes) == before + 1, "another kind of fault is news"


async def test_while_nothing_is_ready_nobody_is_asked_and_nothing_is_counted() -> None:
    async with World().running() as world:
        world.probing.follow(KEY, replace(TARGET, addresses=()), Health())
        await world.pass_by(60)
        assert (world.changes, world.health()) == ([], Health())


async def test_the_worst_of_the_replicas_counts() -> None:
    async with World().running() as world:
        world.asked.wrong["10.0.0.2"] = "refused"
        world.probing.follow(KEY, replace(TARGET, addresses=("10.0.0.1", "10.0.0.2")), Health())
        await world.pass_by(3)
        found = world.health()
        assert found is not None
        assert (found.well, found.wrong) == (None, "refused")


@pytest.mark.parametrize("wrong", ["", "refused"])
async def test_a_busy_replica_does_not_speak_for_one_that_has_answered(wrong: str) -> None:
    async with World().running() as world:
        world.asked.busy.add("10.0.0.1")
        world.asked.wrong["10.0.0.2"] = wrong
        world.probing.follow(KEY, replace(TARGET, addresses=("10.0.0.1", "10.0.0.2")), Health())
        await world.pass_by(3)
        found = world.health()
        assert found is not None
        assert (found.well, found.wrong) == (None if wrong else True, wrong)


async def test_a_start_does_not_end_while_there_is_no_room_for_a_question() -> None:
    async with World().running() as world:
        world.asked.busy.add("10.0.0.1")
        world.probing.follow(KEY, replace(TARGET, rolling=True), Health(well=True))
        await world.pass_by(40)
        world.probing.follow(KEY, TARGET, Health())
        await world.pass_by(40)
        world.probing.follow(KEY, replace(TARGET, addresses=()), Health())
        await world.pass_by(90)
        assert world.health() == Health(), "no replica of the new launch has ever answered"


async def test_replicas_that_go_after_the_first_answer_are_a_failure_in_time() -> None:
    async with World().running() as world:
        world.probing.follow(KEY, replace(TARGET, addresses=()), Health(well=True))
        await world.pass_by(90)
        found = world.health()
        assert found is not None
        assert found.well is False


async def test_replicas_that_are_replaced_begin_without_a_past() -> None:
    async with World().running() as world:
        world.probing.follow(KEY, TARGET, Health())
        await world.pass_by(3)
        replaced = replace(TARGET, launch="l2", launched=False)
        world.probing.follow(KEY, replaced, Health())
        await world.pass_by(40)
        found = world.health()
        assert found is not None
        assert found.well, "the old ones still answer"
        world.probing.follow(KEY, replace(replaced, addresses=()), Health())
        await world.pass_by(40)
        assert world.health() == Health()
        world.probing.follow(KEY, replace(replaced, launched=True), Health())
        await world.pass_by(3)
        found = world.health()
        assert found is not None
        assert found.well


async def test_replicas_that_an_earlier_process_has_replaced_begin_without_a_past() -> None:
    async with World().running() as world:
        started = replace(TARGET, addresses=(), launched=True, rolling=True)
        world.probing.follow(KEY, started, Health(well=True))
        await world.pass_by(90)
        assert world.health() == Health()


@pytest.mark.parametrize("launched", [True, False])
async def test_replicas_that_people_replace_begin_without_a_past_after_another_process_too(
    *, launched: bool
) -> None:
    async with World().running() as world:
        half = replace(TARGET, addresses=(), launched=launched, by_hand=True)
        world.probing.follow(KEY, half, Health(well=True))
        await world.pass_by(90)
        assert world.health() == Health()
        world.probing.follow(KEY, TARGET, Health())
        await world.pass_by(3)
        found = world.health()
        assert found is not None
        assert found.well
        world.probing.follow(KEY, replace(TARGET, addresses=()), Health())
        await world.pass_by(90)
        found = world.health()
        assert found is not None
        assert found.well is False, "it is over once all are up: silence is a failure again"


@pytest.mark.parametrize(
    ("strategy", "revisions", "rolling"),
    [
        ("RollingUpdate", ("a", "b"), True),
        ("RollingUpdate", ("b", "b"), False),
        ("OnDelete", ("a", "b"), False),
    ],
)
def test_a_workload_is_rolling_until_its_controller_says_that_it_is_over(
    strategy: str, revisions: tuple[str, str], *, rolling: bool
) -> None:
    status = dict(zip(("currentRevision", "updateRevision"), revisions, strict=True))
    raw = {"spec": {"updateStrategy": {"type": strategy}}, "status": status}
    assert msgspec.convert(raw, StatefulSet).rolling == rolling


async def test_a_new_address_is_asked_at_once() -> None:
    async with World().running() as world:
        world.probing.follow(KEY, TARGET, Health())
        await world.pass_by(3)
        world.probing.follow(KEY, replace(TARGET, addresses=("10.0.0.9",)), Health())
        await world.clock.advance(0)
        assert world.asked.seen[-1][0] == "10.0.0.9"


async def test_another_life_of_the_same_name_has_no_past() -> None:
    async with World().running() as world:
        world.probing.follow(KEY, TARGET, Health())
        await world.pass_by(3)
        assert world.health("u2") is None
        world.probing.follow(KEY, replace(TARGET, order="u2", addresses=()), Health())
        assert world.health("u2") == Health()
        assert world.health() is None


async def test_who_is_forgotten_is_asked_no_more() -> None:
    async with World().running() as world:
        world.probing.follow(KEY, TARGET, Health())
        await world.pass_by(3)
        world.probing.forget(KEY)
        asked = len(world.asked.seen)
        await world.pass_by(60)
        assert (len(world.asked.seen), world.health()) == (asked, None)


async def test_what_was_followed_before_the_start_is_asked_from_then_on() -> None:
    world = World()
    world.probing.follow(KEY, TARGET, Health())
    assert world.asked.seen == []
    async with world.running():
        assert world.asked.seen
