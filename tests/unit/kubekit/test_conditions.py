from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kubekit.conditions import Condition, find, first_not_true, is_true, set_condition

NOW = datetime(2026, 1, 1, 12, 0, 0, 999, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def said(conditions: tuple[Condition, ...] = (), **changes: Any) -> tuple[Condition, ...]:
    fields: dict[str, Any] = {
        "type": "Ready",
        "status": "False",
        "reason": "Pending",
        "message": "",
        "now": NOW,
        "generation": 1,
    } | changes
    return set_condition(conditions, **fields)


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    first = said()
    again = said(first, reason="Publishing", message="more", now=LATER, generation=2)
    assert again[0].last_transition_time == first[0].last_transition_time
    assert (again[0].reason, again[0].observed_generation) == ("Publishing", 2)

    changed = said(again, status="True", now=LATER)
    assert changed[0].last_transition_time == LATER.replace(microsecond=0)


def test_saying_the_same_again_changes_nothing() -> None:
    assert said(said(), now=LATER) == said()


def test_a_condition_stays_in_its_place() -> None:
    conditions = said(said(said(type="A"), type="B"), type="A", status="True")
    assert [one.type for one in conditions] == ["A", "B"]
    assert is_true(conditions, "A")
    assert not is_true(conditions, "B")
    assert not is_true(conditions, "C")
    assert find(conditions, "C") is None


def test_the_first_that_fails_is_found_in_the_given_order() -> None:
    conditions = said(said(said(type="A"), type="B", status="Unknown"), type="C", status="True")
    first = first_not_true(conditions, ["C", "B", "A"])
    assert first
    assert first.type == "B"
    assert first_not_true(said(type="C", status="True")) is None


def test_times_are_whole_seconds_as_the_api_keeps_them() -> None:
    assert msgspec.to_builtins(said()[0])["lastTransitionTime"] == "2026-01-01T12:00:00Z"


@given(
    st.lists(
        st.tuples(st.sampled_from("AB"), st.sampled_from(["True", "False", "Unknown"]), st.integers(0, 9)),
        max_size=12,
    )
)
def test_the_time_is_that_of_the_last_change_of_status(steps: list[tuple[str, str, int]]) -> None:
    conditions: tuple[Condition, ...] = ()
    expected: dict[str, tuple[str, datetime]] = {}
    for number, (name, status, _) in enumerate(steps):
        now = NOW.replace(microsecond=0) + timedelta(seconds=number)
        conditions = said(conditions, type=name, status=status, now=now)
        if expected.get(name, ("",))[0] != status:
            expected[name] = (status, now)
    assert {one.type: (one.status, one.last_transition_time) for one in conditions} == expected
