"""The file-system store between processes: compare-and-swap, kills, a full disk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from objectstore.filesystem import FileSystemStore
from objectstore.port import NoSuchKey, ObjectStoreError, PartInfo, PreconditionFailed, StoreFull
from tests.contract.objectstore.test_objectstore_objects import whole
from tests.kit.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

WRITER = Path(__file__).with_name("writer.py")
MIB = 1 << 20


@asynccontextmanager
async def process(root: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the writer; it has opened the store when this begins."""
    source = Path(__file__).parents[3] / "src"
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, str(WRITER), str(root), *arguments),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    assert started.stdout is not None
    assert await started.stdout.readline() == b"ready\n"
    try:
        yield started
    finally:
        with contextlib.suppress(ProcessLookupError):
            started.kill()
        await started.wait()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FileSystemStore]:
    opened = FileSystemStore(tmp_path / "store")
    yield opened
    await opened.close()


async def test_two_processes_and_this_one_lose_no_step_of_a_counter(
    store: FileSystemStore, tmp_path: Path
) -> None:
    await store.put("counter", b"0")
    root = tmp_path / "store"

    async def here() -> None:
        for _ in range(25):
            while True:
                found = await store.get("counter")
                with contextlib.suppress(PreconditionFailed):
                    await store.put("counter", b"%d" % (int(found.body) + 1), if_match=found.etag)
                    break

    async with process(root, "count", "counter", "25") as one, process(root, "count", "counter", "25") as two:
        await asyncio.gather(here(), here(), one.wait(), two.wait())

    assert (await store.get("counter")).body == b"100"


async def test_a_writer_that_is_killed_leaves_old_or_new_and_no_litter(tmp_path: Path) -> None:
    root, size = tmp_path / "store", 3 * MIB
    store = FileSystemStore(root)
    await store.put("key", b"\0" * size)
    seen = set()
    for wait in (0.0, 0.003, 0.007, 0.011, 0.02, 0.05):
        async with process(root, "put", "key", str(size)) as writer:
            before = (await store.head("key")).etag
            if wait:
                await eventually(partial(replaced, store, before))
            await asyncio.sleep(wait)
            writer.kill()
            await writer.wait()
        body = (await store.get("key")).body
        assert body == body[:1] * size
        seen.add(body[:1])
    await store.close()

    assert len(seen) > 1
    await FileSystemStore(root).close()
    assert [path.name for path in (root / "tmp").iterdir()] == []


async def replaced(store: FileSystemStore, before: str) -> bool:
    return (await store.head("key")).etag != before


async def test_a_stalled_process_cannot_write_into_what_another_completes(
    store: FileSystemStore, tmp_path: Path
) -> None:
    async with process(tmp_path / "store", "hold", "key") as other:
        assert other.stdout is not None
        upload, etag = (await other.stdout.readline()).decode().split()
        other.send_signal(signal.SIGSTOP)
        ours = await store.upload_part("key", upload, 2, b"2" * 500)
        again = await store.upload_part("key", upload, 1, b"x" * 1000)

        parts = [PartInfo(1, 1000, again), PartInfo(2, 500, ours)]
        assert [part.etag for part in await store.list_parts("key", upload)] == [again, ours]
        assert etag != again
        await store.complete_multipart("key", upload, parts)
        other.send_signal(signal.SIGCONT)

    assert await whole(store, "key") == b"x" * 1000 + b"2" * 500


async def test_parts_of_a_process_that_was_killed_are_there_for_the_next(
    store: FileSystemStore, tmp_path: Path
) -> None:
    async with process(tmp_path / "store", "hold", "key") as other:
        assert other.stdout is not None
        upload, etag = (await other.stdout.readline()).decode().split()
        other.kill()
        await other.wait()
    inode = (tmp_path / "store" / "multipart" / upload / "data").stat().st_ino

    second = await store.upload_part("key", upload, 2, b"2" * 10)
    await store.complete_multipart("key", upload, [PartInfo(1, 1000, etag), PartInfo(2, 10, second)])

    assert await whole(store, "key") == b"1" * 1000 + b"2" * 10
    assert (tmp_path / "store" / "objects" / "key=").stat().st_ino == inode, "it was copied"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a directory with room for 8 MiB: a tmpfs for root, a limit on file sizes for others."""
    place = tmp_path / "small"
    place.mkdir()
    if os.geteuid() == 0:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], check=True)
        try:
            yield place
        finally:
            subprocess.run(["umount", str(place)], check=True)
        return
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 * MIB, limits[1]))
    try:
        yield place
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


async def test_a_full_disk_is_named_and_what_was_there_stays(small_disk: Path) -> None:
    store = FileSystemStore(small_disk / "store")
    try:
        await store.put("key", b"old")
        with pytest.raises(StoreFull, match="free space"):
            await store.put("key", bytes(9 * MIB))
        assert (await store.get("key")).body == b"old"

        upload = await store.create_multipart("data")
        first = await store.upload_part("data", upload, 1, bytes(4 * MIB))
        with pytest.raises(StoreFull):
            await store.upload_part("data", upload, 2, bytes(6 * MIB))
        assert [part.number for part in await store.list_parts("data", upload)] == [1]
        await store.complete_multipart("data", upload, [PartInfo(1, 4 * MIB, first)])
        assert await whole(store, "data") == bytes(4 * MIB)

        await store.delete("data")
        with pytest.raises(NoSuchKey):
            await store.head("data")
        await store.put("key", b"new")
        assert (await store.get("key")).body == b"new"
    finally:
        await store.close()


async def test_what_is_wrong_on_the_disk_is_named_alike_by_every_way_to_read(
    store: FileSystemStore, tmp_path: Path
) -> None:
    (tmp_path / "store/objects/key=").mkdir()
    for call in (store.get("key"), store.head("key"), whole(store, "key")):
        with pytest.raises(ObjectStoreError, match="key"):
            await call
