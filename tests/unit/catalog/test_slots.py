from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from aimodels.api.model import RETRY_ANNOTATION, AnyModel, PublicationStatus
from aimodels.api.reasons import Phase
from aimodels.catalog.names import UID_LABEL
from aimodels.catalog.slots import Slots
from aimodels.catalog.state import Obstacle, Queue
from kubekit.resources import Job, ObjectMeta
from kubekit.resources.workloads import JobCondition, JobStatus
from tests.kit.observations import NOW, model, status


def queued(uid: str, since: int = 0, **fields: Any) -> AnyModel:
    """Return a model that waits since so many seconds ago."""
    made = status(Phase.PUBLISHING, **fields)
    conditions = tuple(
        msgspec.structs.replace(one, last_transition_time=NOW - timedelta(seconds=since))
        for one in made.conditions
    )
    return model(msgspec.structs.replace(made, conditions=conditions), uid=uid)


def job(uid: str, *conditions: str) -> Job:
    ended = [JobCondition(type=one, status="True") for one in conditions]
    return Job(
        metadata=ObjectMeta(name=f"job-{uid}", labels={UID_LABEL: uid}), status=JobStatus(conditions=ended)
    )


def test_who_waited_longest_is_next() -> None:
    models = [queued("a", 1), queued("b", 9), queued("c", 5)]
    slots = Slots(4)
    places = [slots.queue(one, models, [], NOW).position for one in models]
    assert places == [3, 1, 2]


def test_running_jobs_take_places_and_ended_ones_do_not() -> None:
    jobs = [job("x"), job("y", "Complete"), job("z", "Failed")]
    models = [queued("x"), model(status(Phase.READY), uid="y"), model(status(Phase.FAILED), uid="z")]
    assert Slots(2).queue(queued("a"), models, jobs, NOW) == Queue(position=1, free=1)


def test_a_job_that_lingers_after_its_model_is_done_takes_no_place() -> None:
    slots = Slots(1)
    slots.begun("z", "job-z")
    models = [model(status(Phase.READY), uid="y"), model(status(Phase.READY), uid="z")]
    assert slots.queue(queued("a"), models, [job("y"), job("gone")], NOW).may_start


def test_a_job_that_was_just_made_counts_before_it_is_seen() -> None:
    slots = Slots(1)
    slots.begun("x", "job-x")
    assert slots.queue(queued("a"), [queued("x")], [], NOW) == Queue(position=1, free=0)
    assert slots.expects("x", "job-x", NOW)

    slots.settled("x", "job-x")
    assert not slots.expects("x", "job-x", NOW)
    assert not slots.queue(queued("a"), [queued("x")], [job("x")], NOW).may_start


def test_its_own_job_does_not_stand_in_a_models_way() -> None:
    assert Slots(1).queue(queued("a"), [], [job("a")], NOW).may_start


def test_who_waits_for_a_back_off_or_leaves_takes_no_place() -> None:
    later = PublicationStatus(attempt=2, retry_at=NOW + timedelta(seconds=1))
    gone = queued("g", 9)
    gone = msgspec.structs.replace(
        gone, metadata=msgspec.structs.replace(gone.metadata, deletion_timestamp=NOW)
    )
    others = [queued("b", 9, publication=later), gone, model(status(Phase.WAIT_FOR_UPLOAD), uid="w")]
    assert Slots(1).queue(queued("a"), others, [], NOW) == Queue(position=1, free=1)
    assert Slots(1).queue(queued("a"), others, [], NOW + timedelta(seconds=1)).position == 2


def test_of_all_that_wait_exactly_as_many_may_start_as_there_are_places() -> None:
    models = [queued("x"), *(queued(f"m{n:02}") for n in range(10))]
    slots = Slots(4)
    started = [one for one in models[1:] if slots.queue(one, models, [job("x")], NOW).may_start]
    assert len(started) == 3


def test_a_job_that_came_and_went_unseen_is_not_expected_for_ever() -> None:
    slots = Slots(1)
    slots.begun("x", "job-x")
    assert slots.expects("x", "job-x", NOW)
    assert slots.expects("x", "job-x", NOW + timedelta(seconds=59))
    assert not slots.expects("x", "job-x", NOW + timedelta(seconds=60))
    assert slots.queue(queued("a"), [queued("x")], [], NOW).free == 1


def test_who_was_hindered_takes_no_place_meanwhile_and_comes_behind_those_who_wait() -> None:
    slots, later = Slots(1), NOW + timedelta(seconds=60)
    slots.begun("x", "job-x")
    slots.settled("x", "job-x")
    slots.hinder("x", Obstacle("exceeded quota", later))
    hindered, waiting = queued("x", 9), queued("a")
    assert slots.queue(waiting, [hindered], [], NOW) == Queue(position=1, free=1)
    assert slots.queue(waiting, [hindered], [], later).position == 1
    assert slots.queue(hindered, [waiting], [], later).position == 2
    assert slots.queue(queued("new", -61), [hindered], [], later + timedelta(seconds=1)).position == 2

    slots.begun("x", "job-x")
    assert slots.obstacle("x") is None


def test_whoever_stands_aside_is_told_to_those_who_wait_and_a_new_wish_brings_it_back() -> None:
    told: list[bool] = []
    slots = Slots(1, lambda: told.append(slots.queue(queued("a"), [queued("x", 9)], [], NOW).may_start))
    slots.hinder("x", Obstacle("exceeded quota", NOW + timedelta(seconds=60), "1"))
    assert told == [True], "they find the place free"

    same, another = (queued("x", 9), queued("x", 9))
    for one, wish in ((same, "1"), (another, "2")):
        one.metadata.annotations[RETRY_ANNOTATION] = wish
    late = queued("late", -61)
    assert slots.queue(late, [same], [], NOW).position == 1
    assert slots.queue(late, [another], [], NOW).position == 2


def test_an_obstacle_goes_with_its_model() -> None:
    slots = Slots(1)
    slots.hinder("x", Obstacle("exceeded quota", NOW))
    slots.queue(queued("a"), [], [], NOW)
    assert slots.obstacle("x") is None


@pytest.mark.parametrize(
    ("limit", "waiting", "crowded"), [(1, 0, False), (1, 1, True), (2, 1, False), (2, 2, True)]
)
def test_it_is_crowded_when_somebody_could_have_just_the_place_that_one_holds(
    limit: int, waiting: int, *, crowded: bool
) -> None:
    others = [queued(f"w{number}") for number in range(waiting)]
    assert Slots(limit).queue(queued("held"), others, [job("held")], NOW).crowded is crowded
    assert not Slots(limit).queue(queued("idle"), others, [], NOW).crowded
