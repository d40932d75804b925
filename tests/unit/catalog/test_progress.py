from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aimodels.api.model import TransferStatus
from aimodels.api.reasons import TransferStage
from aimodels.catalog import progress
from aimodels.catalog.state import Bytes
from tests.kit.observations import NOW

TOTAL = 10**11


def told(steps: list[int], total: int | None) -> list[TransferStatus]:
    """Return the different statuses that a transfer's steps bring."""
    seen: list[TransferStatus] = []
    for moved in steps:
        new = progress.transfer_status(
            TransferStage.UPLOADING, Bytes(moved, total), seen[-1] if seen else None
        )
        if not seen or new != seen[-1]:
            seen.append(new)
    return seen


@given(st.lists(st.integers(0, TOTAL), min_size=1, max_size=400).map(sorted))
def test_a_transfer_of_known_size_takes_at_most_twenty_writes(steps: list[int]) -> None:
    assert len(told([*steps, TOTAL], TOTAL)) <= 20


def test_a_transfer_in_the_smallest_steps_takes_at_most_twenty_writes() -> None:
    assert len(told(list(range(10_001)), 10_000)) <= 20


def test_a_transfer_of_unknown_size_is_told_by_its_growth() -> None:
    seen = told(list(range(1, 10_000)), None)
    assert 10 < len(seen) < 30
    assert progress.percent(seen[-1]) is None


def test_nothing_is_told_of_numbers_that_are_not_known() -> None:
    status = progress.transfer_status(TransferStage.PACKAGING, Bytes(0, 100), None)
    assert status == TransferStatus(stage="Packaging")
    assert progress.transfer_status(TransferStage.PACKAGING, None, None) == status


def test_the_last_percent_belongs_to_ready() -> None:
    status = progress.transfer_status(TransferStage.PACKAGING, Bytes(100, 100), None)
    assert progress.percent(status) == "99%"


def test_the_rest_is_told_at_the_present_speed() -> None:
    status = progress.transfer_status(TransferStage.PACKAGING, Bytes(40, 100, 20.0, NOW), None)
    assert (status.bytes_per_second, status.eta_seconds) == (20, 3)


def test_a_place_far_behind_is_told_when_it_halves_and_one_near_the_front_always() -> None:
    seen: list[int] = []
    old = None
    for position in range(1000, 0, -1):
        old = progress.transfer_status(TransferStage.QUEUED, None, old, position=position)
        if old.queue_position and old.queue_position not in seen:
            seen.append(old.queue_position)
    assert seen[-3:] == [3, 2, 1]
    assert len(seen) < 15


@pytest.mark.parametrize(("total", "minutes"), [(None, 2), (0, 2), (6_000_000_000, 4), (10**15, 30)])
def test_larger_models_may_be_silent_for_longer(total: int | None, minutes: int) -> None:
    assert progress.stall_deadline(total) == timedelta(minutes=minutes)
