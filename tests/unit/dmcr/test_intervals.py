"""The union of intervals against a set of bytes, and its bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aimodels.dmcr.intervals import MOST_INTERVALS, Intervals

PAIRS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=40)


@given(PAIRS)
def test_union_is_the_set_of_bytes(pairs: list[tuple[int, int]]) -> None:
    union = Intervals(pairs)
    covered = {byte for start, end in pairs for byte in range(start, end)}
    assert {byte for start, end in union for byte in range(start, end)} == covered
    assert union.total() == len(covered)
    edges = [edge for interval in union for edge in interval]
    assert edges == sorted(set(edges)), "disjoint, sorted, and none touches the next"


@given(PAIRS, PAIRS)
def test_merging_is_commutative_and_repeatable(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    ab, ba = Intervals(a), Intervals(b)
    ab.update(Intervals(b))
    ba.update(Intervals(a))
    assert list(ab) == list(ba)
    ab.update(ba)
    assert list(ab) == list(ba)


def test_a_stream_is_one_interval() -> None:
    union = Intervals()
    for at in range(0, 1_000_000, 1000):
        union.add(at, at + 1000)
    assert list(union) == [(0, 1_000_000)]


@given(
    st.lists(st.integers(0, 10_000), min_size=MOST_INTERVALS + 1, max_size=2 * MOST_INTERVALS, unique=True)
)
def test_memory_is_bounded_and_nothing_delivered_is_lost(starts: list[int]) -> None:
    union = Intervals((2 * start, 2 * start + 1) for start in starts)
    assert len(union) <= MOST_INTERVALS
    assert union.total() >= len(starts)
    assert union.total() <= 2 * max(starts) + 1
