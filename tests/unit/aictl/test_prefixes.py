"""Digests of a file's beginnings are right wherever it was read before."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aictl import prefixes
from aictl.exits import Failure
from aictl.prefixes import Prefixes

CONTENT = os.urandom(10_000)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prefixes") / "file"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture(autouse=True)
def _small_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefixes, "MARK", 1000)
    monkeypatch.setattr(prefixes, "READ", 300)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10_000), st.integers(200, 3000)), max_size=6))
@settings(max_examples=30, deadline=None)
async def test_digests_and_pieces_in_any_order(file: Path, steps: list[tuple[bool, int, int]]) -> None:
    known = Prefixes(file)
    for reads, offset, length in steps:
        if reads:
            pieces = [piece async for piece in known.chunks(offset, length)]
            assert b"".join(pieces) == CONTENT[offset:]
            assert all(len(piece) <= length for piece in pieces)
        else:
            assert await known.digest(offset) == _digest(CONTENT[:offset])
    assert await known.digest(10_000) == _digest(CONTENT)


async def test_a_file_that_shrinks_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    known = Prefixes(path)
    path.write_bytes(b"")
    with pytest.raises(Failure, match="was changed"):
        await known.digest(500)
    with pytest.raises(Failure, match="was changed"):
        [piece async for piece in known.chunks(0, 100)]


def is_open(file: Path) -> bool:
    return any(one.resolve() == file for one in Path("/proc/self/fd").iterdir())


async def test_no_file_stays_open_for_whoever_gives_up_half_way(file: Path) -> None:
    chunks = Prefixes(file).chunks(0, 1000)
    await anext(chunks)
    assert not is_open(file)


async def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    prefixes = Prefixes(path)
    path.unlink()
    with pytest.raises(Failure, match="removed"):
        await prefixes.digest(len(CONTENT))
    with pytest.raises(Failure, match="removed"):
        prefixes.check()
