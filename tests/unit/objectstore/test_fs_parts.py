"""Where parts go in the file-system store, and what its files tell when they are damaged."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from objectstore.filesystem import FileSystemStore
from objectstore.fs_files import ObjectDamaged
from objectstore.fs_parts import PartTable, Slot
from objectstore.fs_upload import Upload
from objectstore.port import NoSuchKey, PartInfo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

KEY = "data/x"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FileSystemStore]:
    opened = FileSystemStore(tmp_path / "store")
    yield opened
    await opened.close()


def test_the_table_keeps_what_it_was_told(tmp_path: Path) -> None:
    path = tmp_path / "parts"
    PartTable.create(path, "ü" * 400)
    table = PartTable(path)
    common, own = Slot("ab" * 16, 1 << 40, 5, ""), Slot("cd" * 16, 0, 7, "ef" * 16)
    table.write(1, common)
    table.write(10_000, own)
    table.write(3, own)
    table.clear([3])
    table.close()

    again = PartTable(path)
    assert (again.key(), again.slots()) == ("ü" * 400, {1: common, 10_000: own})
    again.close()


def test_a_damaged_slot_is_no_part(tmp_path: Path) -> None:
    path = tmp_path / "parts"
    PartTable.create(path, "key")
    table = PartTable(path)
    table.write(1, Slot("ab" * 16, 0, 5, ""))
    with path.open("r+b") as file:
        file.seek(4096 + 20)
        file.write(b"\xff")
    assert table.slots() == {}
    table.close()


async def placed(store: FileSystemStore, tmp_path: Path, *sent: tuple[int, int]) -> tuple[bytes, bool]:
    """Send parts of (number, size) in turn, complete; return the bytes, and whether nothing was copied."""
    upload = await store.create_multipart(KEY)
    data = tmp_path / "store" / "multipart" / upload / "data"
    inode = data.stat().st_ino
    etags = {}
    for number, size in sent:
        etags[number] = (size, await store.upload_part(KEY, upload, number, bytes([number]) * size))
    parts = [PartInfo(number, *etags[number]) for number in sorted(etags)]
    await store.complete_multipart(KEY, upload, parts)
    path = tmp_path / "store" / "objects" / "data" / "x="
    return (await store.get(KEY)).body, path.stat().st_ino == inode


@pytest.mark.parametrize(
    ("sent", "in_place"),
    [
        ([(1, 100)], True),
        ([(1, 100), (2, 100), (3, 7)], True),
        ([(2, 100), (1, 100), (3, 100)], True),
        ([(1, 100), (3, 7), (2, 100)], True),
        ([(1, 100), (2, 100), (2, 100), (3, 7)], True),
        ([(1, 100), (2, 100), (3, 200), (4, 200), (5, 9)], True),
        ([(2, 7), (1, 100)], False),
        ([(1, 100), (2, 50), (3, 30), (2, 100)], False),
        ([(3, 200), (1, 100), (2, 100)], False),
    ],
)
async def test_parts_of_a_regular_upload_are_not_copied_and_others_are_right(
    store: FileSystemStore,
    tmp_path: Path,
    sent: list[tuple[int, int]],
    in_place: bool,  # noqa: FBT001
) -> None:
    body, kept = await placed(store, tmp_path, *sent)
    sizes = dict(sent)
    assert body == b"".join(bytes([number]) * sizes[number] for number in sorted(sizes))
    assert kept is in_place


async def test_a_part_that_is_being_written_is_not_written_over(
    store: FileSystemStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = await store.create_multipart(KEY)
    opened = Upload(tmp_path / "store" / "multipart" / upload)
    stalled, go_on = threading.Event(), threading.Event()
    real = os.fdatasync

    def slow(descriptor: int) -> None:
        if not stalled.is_set():
            stalled.set()
            go_on.wait(10)
        real(descriptor)

    monkeypatch.setattr("objectstore.fs_upload.os.fdatasync", slow)
    late = threading.Thread(target=opened.write, args=(1, memoryview(b"a" * 50)))
    late.start()
    assert stalled.wait(10)
    newer = opened.write(1, memoryview(b"b" * 50))
    target = os.open(tmp_path / "copy", os.O_RDWR | os.O_CREAT)
    opened.copy_to(target, [PartInfo(1, 50, newer)], "00" * 16)
    go_on.set()
    late.join()
    os.close(target)
    opened.close()

    assert (tmp_path / "copy").read_bytes()[:50] == b"b" * 50


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 100])
async def test_a_damaged_file_is_an_error_and_never_other_bytes(
    store: FileSystemStore, tmp_path: Path, damage: bytes
) -> None:
    await store.put("key", b"content")
    (tmp_path / "store" / "objects" / "key=").write_bytes(damage)
    with pytest.raises(ObjectDamaged, match="restore it"):
        await store.get("key")


async def test_an_upload_that_was_removed_elsewhere_is_gone(store: FileSystemStore, tmp_path: Path) -> None:
    upload = await store.create_multipart(KEY)
    etag = await store.upload_part(KEY, upload, 1, b"x")
    other = FileSystemStore(tmp_path / "store")
    await other.abort_multipart(KEY, upload)
    await other.close()
    with pytest.raises(NoSuchKey):
        await store.complete_multipart(KEY, upload, [PartInfo(1, 1, etag)])


@pytest.mark.parametrize("unknown", ["0" * 32, "../../etc", "", "x" * 5000])
async def test_an_id_that_is_none_of_ours_is_never_a_path(store: FileSystemStore, unknown: str) -> None:
    with pytest.raises(NoSuchKey):
        await store.list_parts(KEY, unknown)
    await store.abort_multipart(KEY, unknown)


async def test_a_call_that_is_cancelled_waits_for_the_bytes_it_was_given(
    store: FileSystemStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio  # noqa: PLC0415 - only here

    begun, go_on = threading.Event(), threading.Event()
    real = os.fsync

    def slow(descriptor: int) -> None:
        begun.set()
        go_on.wait(10)
        real(descriptor)

    monkeypatch.setattr("objectstore.filesystem.os.fsync", slow)
    writing = asyncio.create_task(store.put("key", b"body"))
    await asyncio.to_thread(begun.wait, 10)
    writing.cancel()
    await asyncio.sleep(0)
    assert not writing.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert (await store.get("key")).body == b"body"
