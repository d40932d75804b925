"""How keys become paths."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectstore import keys
from objectstore.fs_names import keys_below, relative_path

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

elements = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=60
)
some_keys = st.lists(elements, min_size=1, max_size=5).map("/".join)


def is_key(key: str) -> bool:
    try:
        keys.checked(key)
    except ValueError:
        return False
    return True


@given(some_keys.filter(is_key))
def test_every_name_is_short_and_plain(key: str) -> None:
    allowed = set(string.ascii_letters + string.digits + "%!$&'()*,:;@ _.-~+=")
    for name in relative_path(key).parts:
        assert len(name) <= 255
        assert set(name) <= allowed
        assert name not in {".", ".."}


@given(st.sets(some_keys.filter(is_key), max_size=8))
def test_no_file_stands_where_another_key_needs_a_directory(found: set[str]) -> None:
    paths = {relative_path(key) for key in found}
    assert len(paths) == len(found)
    assert not any(parent in paths for path in paths for parent in path.parents)


def touch(root: Path, found: Iterable[str]) -> None:
    for key in found:
        path = root / relative_path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_keys_come_back_as_they_were(tmp_path: Path) -> None:
    found = ["a", "a/b", "a=", "a=/b", "a+/b", "x" * 700, "ü" * 300, "é" * 200 + "/%2F", "a b!c", "…/…"]
    touch(tmp_path, found)
    assert keys_below(tmp_path, "") == sorted(found, key=str.encode)


@pytest.mark.parametrize(
    "prefix", ["", "a", "a/", "a/b", "a/b/", "xx", "x" * 500, "nothing", "nothing/at/all"]
)
def test_a_prefix_finds_what_begins_with_it(tmp_path: Path, prefix: str) -> None:
    found = ["a", "a/b", "a/b/c", "a/bc", "ab", "x" * 700, "x" * 600 + "/y"]
    touch(tmp_path, found)
    assert keys_below(tmp_path, prefix) == sorted(key for key in found if key.startswith(prefix))
