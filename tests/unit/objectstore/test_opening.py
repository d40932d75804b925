"""Which URL opens which engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from objectstore.filesystem import FileSystemStore
from objectstore.memory import MemoryStore
from objectstore.opening import open_store
from objectstore.port import PreconditionFailed
from objectstore.probe import WRITERS, probe
from objectstore.s3 import S3Store
from objectstore.s3settings import S3Settings

if TYPE_CHECKING:
    from pathlib import Path


async def test_urls(tmp_path: Path) -> None:
    for url, kind in (
        (f"file://{tmp_path}/a%20b", FileSystemStore),
        ("memory:", MemoryStore),
        ("s3://bucket/some/prefix/", S3Store),
    ):
        store = open_store(url, s3=S3Settings(endpoint="https://s3.example", access_key="a", secret_key="b"))
        assert isinstance(store, kind)
        await store.close()
    assert (tmp_path / "a b" / "objects").is_dir()


@pytest.mark.parametrize("url", ["", "file://host/x", "file:relative", "s3:bucket", "http://x", "memory:x"])
def test_what_names_no_engine(url: str) -> None:
    with pytest.raises(ValueError, match="is not one of"):
        open_store(url)


def test_settings_that_cannot_work() -> None:
    with pytest.raises(ValueError, match="https://"):
        S3Settings(endpoint="s3.example")
    with pytest.raises(ValueError, match="together"):
        S3Settings(access_key="a")


class Careless(MemoryStore):
    """Answers conditional headers without keeping their promise."""

    def __init__(self, *faults: str) -> None:
        super().__init__()
        self._faults = faults

    async def put(
        self,
        key: str,
        body: bytes | bytearray | memoryview,
        *,
        if_match: str | None = None,
        if_none_match: bool = False,
    ) -> str:
        if if_none_match and "none-match" in self._faults:
            return await super().put(key, body)
        if if_match and "match" in self._faults and key in self._objects:
            return await super().put(key, body)
        if if_match and "missing" in self._faults and key not in self._objects:
            return await super().put(key, body)
        try:
            return await super().put(key, body, if_match=if_match, if_none_match=if_none_match)
        except PreconditionFailed:
            if "writes-anyway" in self._faults:
                await super().put(key, body)
            raise


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("none-match", f"If-None-Match is not atomic: {WRITERS} of {WRITERS}"),
        ("match", f"If-Match is not atomic: {WRITERS} of {WRITERS}"),
        ("missing", "If-Match on a missing key creates it"),
        ("writes-anyway", "fails, and yet the key exists"),
    ],
)
async def test_the_probe_tells_what_a_careless_store_does(fault: str, told: str) -> None:
    store = Careless(fault)
    assert any(told in problem for problem in await probe(store))
    assert [key async for key in store.list("")] == []
