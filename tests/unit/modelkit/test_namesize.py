"""Sizes in models' names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkit.namesize import parameter_count
from tests.kit.vectors import cases

NAMES = [
    case for case in cases("name-parsing.json", None) if "size_token_b" in case.values[0].get("expected", {})
]


@pytest.mark.parametrize("case", NAMES)
def test_the_vectors(case: dict[str, Any]) -> None:
    billions = case["expected"]["size_token_b"]
    assert parameter_count(case["name"]) == (None if billions is None else round(billions * 1e9))


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("llama3-1-8b", 8),  # 3.1 is a version of this family
        ("qwen2-1-5b", 1.5),  # 2.1 is none
        ("smollm2-1-7b", 1.7),
        ("acme2-5-7b", 7),  # x.5 is a version of any family
        ("exaone3-5-7-8b", 7.8),  # after a whole version, the rest is the size
        ("acme-0-27b", 0.27),
        ("llama-2-7b", 7),
        ("2-7b", 7),
        ("9b", 9),
    ],
)
def test_a_dash_is_a_point_only_where_no_version_explains_it(name: str, billions: float) -> None:
    assert parameter_count(name) == round(billions * 1e9)


def test_the_largest_size_wins() -> None:
    assert parameter_count("acme-70b-distill-7b") == 70 * 10**9


def test_a_name_longer_than_any_says_nothing() -> None:
    assert parameter_count("a" * 600 + "-7b") is None


@given(st.text(max_size=600))
def test_no_name_breaks_it(name: str) -> None:
    count = parameter_count(name)
    assert count is None or 0 <= count < 10**16


@given(st.integers(min_value=1, max_value=999), st.sampled_from(["-instruct", "-awq", "-v0.3", "-2507"]))
def test_what_follows_the_size_does_not_matter(billions: int, tail: str) -> None:
    assert parameter_count(f"acme/lm-{billions}b{tail}") == billions * 10**9
