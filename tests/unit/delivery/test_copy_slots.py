"""Places for copies: who is next, and what becomes of one that cannot use its place."""

from __future__ import annotations

from aimodels.delivery.names import DeliveryKey
from aimodels.delivery.slots import Slots

A, B, C = (DeliveryKey("team", "Model", name) for name in "abc")


def test_first_come_first_served() -> None:
    slots = Slots(1)
    assert slots.take(A, ())
    assert not slots.take(B, ())
    assert not slots.take(C, ())
    slots.leave(A)
    assert not slots.take(C, ())
    assert slots.take(B, ())


def test_who_steps_back_stands_behind_those_who_wait_and_remembers_why() -> None:
    slots = Slots(1)
    slots.take(A, ())
    assert not slots.crowded(A)
    slots.take(B, {A})
    assert slots.crowded(A)
    slots.step_back(A, "no node")
    assert slots.waiting == (B, A)
    assert (slots.why(A), slots.why(B)) == ("no node", "")
    assert not slots.take(A, ())
    assert slots.take(B, ())
    slots.leave(B)
    assert slots.take(A, ())
    assert slots.why(A) == ""


def test_of_many_that_cannot_run_each_has_its_turn() -> None:
    slots = Slots(2)
    turns: list[DeliveryKey] = []
    keys = [DeliveryKey("team", "Model", f"m{number}") for number in range(5)]
    for _ in range(10):
        for key in keys:
            if slots.take(key, ()) and key not in turns[-2:]:
                turns.append(key)
        for key in turns[-2:]:
            slots.step_back(key, "no node")
    assert all(turns.count(key) >= 3 for key in keys)
