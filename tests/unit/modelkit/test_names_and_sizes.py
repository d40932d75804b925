"""Names that become paths and keys, sizes that become text and back."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkit import digest, names, sizes

#: what the OCI distribution specification takes as a repository's name
OCI_NAME = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*\Z")
OBJECT = st.from_regex(
    r"[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?){0,3}", fullmatch=True
)
LABEL = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


@given(namespace=st.none() | LABEL, name=OBJECT)
def test_repositories_are_names_that_registries_take(namespace: str | None, name: str) -> None:
    found = names.repository(namespace, name)
    assert OCI_NAME.match(found)
    assert len(found) <= names.REPOSITORY_LIMIT
    if len(name) < 20 and namespace is None:
        assert found == f"clustermodels/{name}"


@given(st.lists(st.tuples(st.none() | LABEL, OBJECT), unique=True, max_size=20))
def test_two_models_never_share_a_repository(models: list[tuple[str | None, str]]) -> None:
    assert len({names.repository(*model) for model in models}) == len(models)


def test_a_long_name_does_not_meet_a_model_that_is_called_like_its_short_form() -> None:
    long = "a" * 200
    assert names.repository("team", long) == names.repository("team", long)
    assert "_" in names.repository("team", long)
    assert names.repository("team", long) != names.repository("team", "a" * 201)


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a..b", "a/b", "a" * 254, "\u00e9", "a\n"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(names.BadName):
        names.repository(None, name)
    with pytest.raises(names.BadName):
        names.repository(name, "model")


@given(st.text(max_size=60))
def test_a_path_is_safe_or_refused(text: str) -> None:
    try:
        path = names.file_path(text)
    except names.BadName:
        return
    assert not path.startswith("/")
    assert ".." not in path.split("/")
    assert all(part and part != "." for part in path.split("/"))
    assert names.file_path(path) == path


def test_paths_are_composed_and_slashes_are_one_way() -> None:
    assert names.file_path("a\\b/./c") == "a/b/c"
    assert names.file_path("/e\u0301.json") == "\u00e9.json"
    with pytest.raises(names.BadName):
        names.file_name("a/b")
    with pytest.raises(names.BadName):
        names.file_path("\ud800")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (253 * 10**6, "241 MiB"),
        (16_430_000_000, "15.3 GiB"),
        (2 << 40, "2.0 TiB"),
    ],
)
def test_sizes_for_people(size: int, text: str) -> None:
    assert sizes.text(size) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(268_098_176, "268 M"), (7_615_616_512, "7.6 B"), (1_026_000_000_000, "1.0 T"), (999, "999")],
)
def test_counts_for_people(number: int, text: str) -> None:
    assert sizes.count(number) == text


@pytest.mark.parametrize(
    ("quantity", "size"),
    [
        ("200Gi", 200 << 30),
        ("1.5Gi", 3 << 29),
        ("1k", 1000),
        ("5", 5),
        ("0.1", 1),
        ("2T", 2 * 10**12),
        (" 7Mi ", 7 << 20),
    ],
)
def test_quantities(quantity: str, size: int) -> None:
    assert sizes.parse_quantity(quantity) == size


@pytest.mark.parametrize("quantity", ["", "Gi", "-1Gi", "1GB", "1e3", "1 Gi", "9" * 30, "1.0000000001Gi"])
def test_other_texts_are_no_quantity(quantity: str) -> None:
    with pytest.raises(ValueError, match="write a number"):
        sizes.parse_quantity(quantity)


def test_digests() -> None:
    assert digest.of(b"") == digest.EMPTY
    assert digest.is_digest(digest.of(b"x"))
    assert not digest.is_digest(digest.of(b"x") + "\n")


def test_a_name_of_endless_marks_is_refused_before_it_is_composed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "unicodedata", None)
    with pytest.raises(names.BadName, match="longer than 1024 bytes"):
        names.file_path("a" + "\u0345\u0334" * (1 << 18))


def test_the_longest_name_may_come_decomposed() -> None:
    composed = "/".join(["\u1fa7" * 80] * 4)
    assert names.file_path(unicodedata.normalize("NFD", composed)) == composed
