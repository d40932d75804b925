from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

import pytest

from objectstore import fs_direct
from objectstore.filesystem import FileSystemStore
from opskit import memory

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


def pages(size: int) -> memoryview:
    view = memoryview(mmap.mmap(-1, size))
    view[:] = os.urandom(size)
    return view


@pytest.mark.parametrize(
    "cached", [0, 3 * MIB, 100 * MIB], ids=["past the cache", "both", "through the cache"]
)
async def test_an_object_is_the_same_whichever_way_its_parts_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: int
) -> None:
    monkeypatch.setattr(fs_direct, "cached_bytes", lambda: cached)
    store = FileSystemStore(tmp_path)
    bodies = [pages(2 * MIB), pages(2 * MIB), pages(MIB + 4096)[: MIB + 17]]
    upload = await store.create_multipart("k")
    for number, body in enumerate(bodies, 1):
        await store.upload_part("k", upload, number, body)
    await store.complete_multipart("k", upload, await store.list_parts("k", upload))
    found = b"".join([bytes(piece) async for piece in store.read("k", chunk=MIB)])
    await store.close()
    assert found == b"".join(bodies)


def test_leading_bytes_are_left_to_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "limit", lambda: 32 * MIB)
    (tmp_path / "f").touch()
    file = fs_direct.DirectFile(tmp_path / "f")
    written = file.write(pages(2 * MIB), 0)
    file.close()
    assert (written, (tmp_path / "f").stat().st_size) == (0, 0)


@pytest.mark.parametrize(("gib", "mib"), [(1, 64), (4, 256), (1024, 256)])
def test_the_share_of_the_cache_follows_the_limit_of_the_container(
    monkeypatch: pytest.MonkeyPatch, gib: int, mib: int
) -> None:
    monkeypatch.setattr(memory, "limit", lambda: gib << 30)
    assert fs_direct.cached_bytes() == mib * MIB


async def test_a_reader_that_stops_early_leaves_no_read_behind(tmp_path: Path) -> None:
    store = FileSystemStore(tmp_path)
    await store.put("k", bytes(3 * MIB))
    open_files = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a kernel folder
    reading = store.read("k", chunk=MIB)
    await anext(reading)
    await reading.aclose()
    assert set(os.listdir("/proc/self/fd")) <= open_files  # noqa: PTH208
    await store.close()
