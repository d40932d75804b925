from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinference.api.orders import ROTATE_TOKEN_ANNOTATION, InferenceService
from aiinference.workload import auth
from aiinference.workload.auth import OVERLAP, PREVIOUS, TOKEN, KeyPlan, Step
from kubekit.resources import Secret
from tests.kit import orders

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _keys() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"key-number-{next(numbers):06d}"


def _wishing(wish: str = "") -> InferenceService:
    return orders.order(annotations={ROTATE_TOKEN_ANNOTATION: wish} if wish else {})


def _stored(plan: KeyPlan, version: str = "1") -> Secret:
    """Return the Secret as the API server has it after the step."""
    assert plan.manifest is not None
    manifest = plan.manifest | {"metadata": plan.manifest["metadata"] | {"resourceVersion": version}}
    return msgspec.convert(manifest, Secret, str_keys=True)


def _values(plan: KeyPlan) -> dict[str, str]:
    assert plan.manifest is not None
    return {name: base64.b64decode(value).decode() for name, value in plan.manifest["data"].items()}


def _foreign(**data: bytes) -> Secret:
    return Secret(metadata=msgspec.convert({"name": "support-llm-auth"}, type(Secret().metadata)), data=data)


def test_the_first_key_is_made_once() -> None:
    made = auth.plan(_wishing(), None, NOW, _keys())
    assert (made.step, _values(made)) == (Step.CREATE, {TOKEN: "key-number-000001"})
    assert made.manifest is not None
    assert (made.manifest["type"], made.manifest["metadata"]["name"]) == ("Opaque", "support-llm-auth")
    assert auth.plan(_wishing(), _stored(made), NOW, _keys()) == KeyPlan(Step.KEEP)


def test_a_wish_from_before_the_first_key_is_fulfilled_by_it() -> None:
    made = auth.plan(_wishing("monday"), None, NOW, _keys())
    assert auth.plan(_wishing("monday"), _stored(made), NOW, _keys()).step == Step.KEEP


def test_a_rotation_keeps_the_old_key_for_its_time() -> None:
    make = _keys()
    first = _stored(auth.plan(_wishing(), None, NOW, make))
    rotated = auth.plan(_wishing("monday"), first, NOW, make)
    assert (rotated.step, rotated.again) == (Step.REPLACE, OVERLAP)
    assert _values(rotated) == {TOKEN: "key-number-000002", PREVIOUS: "key-number-000001"}
    assert rotated.manifest is not None
    assert rotated.manifest["metadata"]["resourceVersion"] == "1"
    assert timedelta(minutes=5) <= OVERLAP

    both = _stored(rotated, "2")
    almost = NOW + OVERLAP - timedelta(seconds=1)
    assert auth.plan(_wishing("monday"), both, almost, make) == KeyPlan(Step.KEEP, again=timedelta(seconds=1))
    ended = auth.plan(_wishing("monday"), both, NOW + OVERLAP, make)
    assert (ended.step, _values(ended)) == (Step.REPLACE, {TOKEN: "key-number-000002"})
    assert auth.plan(_wishing("monday"), _stored(ended, "3"), NOW + OVERLAP, make) == KeyPlan(Step.KEEP)


def test_a_second_rotation_waits_until_the_first_is_over() -> None:
    make = _keys()
    both = _stored(auth.plan(_wishing("a"), _stored(auth.plan(_wishing(), None, NOW, make)), NOW, make))
    assert auth.plan(_wishing("b"), both, NOW, make).step == Step.KEEP
    ended = auth.plan(_wishing("b"), both, NOW + OVERLAP, make)
    assert (_values(ended), ended.again) == ({TOKEN: "key-number-000002"}, timedelta())
    second = auth.plan(_wishing("b"), _stored(ended), NOW + OVERLAP, make)
    assert _values(second) == {TOKEN: "key-number-000003", PREVIOUS: "key-number-000002"}


def test_probes_ask_with_the_key_that_every_pod_knows() -> None:
    make = _keys()
    first = _stored(auth.plan(_wishing(), None, NOW, make))
    assert auth.probe_key(first) == "key-number-000001"
    assert auth.probe_key(_stored(auth.plan(_wishing("a"), first, NOW, make))) == "key-number-000001"
    assert auth.probe_key(_foreign(token=b"key-of-an-admin\n")) == "key-of-an-admin"
    assert auth.probe_key(_foreign()) is None


def test_a_wish_that_is_taken_back_changes_nothing() -> None:
    make = _keys()
    first = _stored(auth.plan(_wishing("a"), None, NOW, make))
    assert auth.plan(_wishing(), first, NOW, make).step == Step.KEEP


def test_a_secret_of_somebody_else_is_used_and_never_written() -> None:
    assert auth.plan(_wishing("monday"), _foreign(token=b"k" * 32), NOW, _keys()) == KeyPlan(Step.KEEP)
    refused = auth.plan(_wishing(), _foreign(other=b"k" * 32), NOW, _keys())
    assert (refused.step, refused.manifest) == (Step.CONFLICT, None)
    assert "support-llm-auth" in refused.message


def test_the_secret_of_an_earlier_order_of_the_name_is_nobodys_own() -> None:
    earlier = orders.order(metadata={"uid": "earlier"})
    left = _stored(auth.plan(earlier, None, NOW, _keys()))
    found = auth.plan(_wishing(), left, NOW, _keys())
    assert (found.step, found.manifest) == (Step.WAIT, None)
    assert "earlier order" in found.message


def test_a_key_that_was_taken_out_is_made_again() -> None:
    first = _stored(auth.plan(_wishing(), None, NOW, _keys()))
    emptied = msgspec.structs.replace(first, data={})
    made = auth.plan(_wishing(), emptied, NOW, _keys())
    assert (made.step, list(_values(made))) == (Step.REPLACE, [TOKEN])


@pytest.mark.parametrize("broken", ["", "yesterday", "2026-01-01T00:00:00"])
def test_a_time_that_cannot_be_read_ends_a_rotation_rather_than_keeping_it_for_ever(broken: str) -> None:
    make = _keys()
    both = _stored(auth.plan(_wishing("a"), _stored(auth.plan(_wishing(), None, NOW, make)), NOW, make))
    both.metadata.annotations[auth.ROTATED_AT_ANNOTATION] = broken
    assert auth.plan(_wishing("a"), both, NOW + OVERLAP, make).step == Step.REPLACE


@pytest.mark.parametrize("ahead", [timedelta(minutes=2), timedelta(days=365)])
def test_a_clock_that_was_ahead_keeps_the_old_key_for_its_time_and_not_for_ever(ahead: timedelta) -> None:
    make = _keys()
    first = _stored(auth.plan(_wishing(), None, NOW, make))
    both = _stored(auth.plan(_wishing("a"), first, NOW + ahead, make))
    put_right = auth.plan(_wishing("a"), both, NOW, make)
    assert (put_right.step, put_right.again) == (Step.REPLACE, OVERLAP)
    assert _values(put_right) == {TOKEN: "key-number-000002", PREVIOUS: "key-number-000001"}
    known = _stored(put_right, "2")
    assert auth.plan(_wishing("a"), known, NOW, make) == KeyPlan(Step.KEEP, again=OVERLAP)
    ended = auth.plan(_wishing("a"), known, NOW + OVERLAP, make)
    assert _values(ended) == {TOKEN: "key-number-000002"}


def test_clocks_that_differ_a_little_write_nothing_for_it() -> None:
    make = _keys()
    first = _stored(auth.plan(_wishing(), None, NOW, make))
    both = _stored(auth.plan(_wishing("a"), first, NOW + timedelta(seconds=50), make))
    assert auth.plan(_wishing("a"), both, NOW, make).step == Step.KEEP


@given(st.lists(st.tuples(st.sampled_from(["", "a", "b", "c"]), st.integers(0, 900)), max_size=12))
def test_no_key_ends_before_its_time_whatever_is_wished_for(wishes: list[tuple[str, int]]) -> None:
    """Every key that was ever the newest opens until OVERLAP after the next one was made."""
    make, now = _keys(), NOW
    secret = _stored(auth.plan(_wishing(), None, now, make))
    replaced: dict[bytes, datetime] = {}
    for wish, later in wishes:
        now += timedelta(seconds=later)
        while True:
            plan = auth.plan(_wishing(wish), secret, now, make)
            if plan.manifest is None:
                break
            before, secret = secret, _stored(plan)
            if before.data[TOKEN] != secret.data[TOKEN]:
                replaced[before.data[TOKEN]] = now
        for key, since in replaced.items():
            assert now - since >= OVERLAP or key in secret.data.values()
        assert len(secret.data) <= 2
