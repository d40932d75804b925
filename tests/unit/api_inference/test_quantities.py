"""Counts of parameters as people write them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinference.api import quantities

VECTORS = Path(__file__).parents[2] / "vectors" / "name-parsing.json"


@pytest.mark.parametrize(
    ("written", "count"),
    [
        ("70B", 70 * 10**9),
        ("32b", 32 * 10**9),
        ("1.5B", 1_500_000_000),
        ("0.6B", 600_000_000),
        ("0.005B", 5_000_000),
        ("360M", 360 * 10**6),
        ("360m", 360 * 10**6),
        ("70", 70),
        ("2.4T", 2_400 * 10**9),
        ("7615616512", 7_615_616_512),
        (7_615_616_512, 7_615_616_512),
        (1, 1),
    ],
)
def test_a_count_is_read(written: int | str, count: int) -> None:
    assert quantities.parse(written) == count


NO_COUNTS: list[int | str] = [
    *(
        "",
        "B",
        "70 B",
        "70BB",
        "-7B",
        "+7B",
        "0B",
        "0.0B",
        "0.000B",
        "0",
        "07B",
        "1.B",
        ".5B",
        "1e9",
        "7K",
        "70Gi",
    ),
    *("70B\n", "\u0667B", "1.2345B", "12345B", "1" * 16, "x" * 10_000, 0, -1, 10**16),
]


@pytest.mark.parametrize("written", NO_COUNTS)
def test_what_is_no_count_is_refused_with_the_forms_that_are(written: int | str) -> None:
    with pytest.raises(quantities.BadQuantity, match=r"write it like 70B, 1\.5B or 360M") as refused:
        quantities.parse(written)
    assert len(str(refused.value)) < 200


def test_the_collected_sizes_are_read() -> None:
    cases = [case for case in json.loads(VECTORS.read_text())["cases"] if "size_string" in case]
    assert len(cases) >= 5
    assert [quantities.parse(case["size_string"]) for case in cases] == [
        case["expected"]["params"] for case in cases
    ]


@given(st.from_regex(re.compile(quantities.PATTERN.replace("$", r"\Z"), re.ASCII)))
def test_all_that_the_api_server_takes_is_read_as_a_whole_number(written: str) -> None:
    assert len(written) <= quantities.LENGTH
    assert 0 < quantities.parse(written) <= quantities.MOST


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (70 * 10**9, "70B"),
        (7_615_616_512, "7.62B"),
        (268_098_176, "268.1M"),
        (999_999_999, "1B"),
        (2_400 * 10**9, "2.4T"),
        (999_994_000, "999.99M"),
        (12_000, "12000"),
        (5, "5"),
    ],
)
def test_a_count_is_shown_short(count: int, text: str) -> None:
    assert quantities.text(count) == text


@given(st.integers(min_value=10**6, max_value=10**15))
def test_what_is_shown_is_near_what_is_meant(count: int) -> None:
    assert abs(quantities.parse(quantities.text(count)) - count) <= count * 0.006
