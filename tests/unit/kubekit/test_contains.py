from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubekit.apply import contains

KEYS = st.text("xyz", max_size=1)
JSON = st.recursive(
    st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", max_size=1), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON)
def test_everything_contains_itself(document: Any) -> None:
    assert contains(document, document)


@given(st.dictionaries(KEYS, JSON), st.text("pq", min_size=1, max_size=1), JSON)
def test_more_than_was_meant_does_not_matter(intent: dict[str, Any], name: str, more: Any) -> None:
    assert contains(intent | {name: more}, intent)
    assert not contains(intent, intent | {name: more})


@pytest.mark.parametrize(
    ("observed", "intent", "expected"),
    [
        ({"spec": {"a": [{"b": 1, "c": 2}]}}, {"spec": {"a": [{"b": 1}]}}, True),
        ({"spec": {"a": [1, 2]}}, {"spec": {"a": [1]}}, False),
        ({"spec": {"a": [1]}}, {"spec": {"a": [1, 2]}}, False),
        ({"spec": None}, {"spec": {"a": 1}}, False),
        ({"spec": {}}, {"apiVersion": "v1", "kind": "X", "spec": {}}, True),
        ({"a": "1"}, {"a": 1}, False),
    ],
)
def test_lists_are_compared_as_wholes(observed: Any, intent: Any, *, expected: bool) -> None:
    assert contains(observed, intent) is expected
