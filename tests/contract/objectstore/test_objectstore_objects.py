"""What every engine promises about whole objects: conditions, ranges, listing."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from objectstore.port import InvalidRange, NoSuchKey, PreconditionFailed
from objectstore.probe import probe

if TYPE_CHECKING:
    from objectstore.port import ObjectStore

MIB = 1 << 20
MISSING = "0" * 32


async def whole(store: ObjectStore, key: str, start: int = 0, length: int | None = None) -> bytes:
    async with aclosing(store.read(key, start, length, chunk=64 << 10)) as pieces:
        return b"".join([bytes(piece) async for piece in pieces])


async def test_an_object_is_read_back_with_its_etag(store: ObjectStore) -> None:
    etag = await store.put("a/b", b"hello")

    found = await store.get("a/b")
    info = await store.head("a/b")

    assert (found.body, found.etag) == (b"hello", etag)
    assert (info.size, info.etag) == (5, etag)


async def test_an_absent_key_is_named_so_by_every_reading_call(store: ObjectStore) -> None:
    for call in (store.get("a/nothing"), store.head("a/nothing"), whole(store, "a/nothing")):
        with pytest.raises(NoSuchKey):
            await call


async def test_other_bytes_have_another_etag_and_are_seen_at_once(store: ObjectStore) -> None:
    first = await store.put("key", b"one")
    second = await store.put("key", b"two")

    assert first != second
    assert (await store.get("key")).body == b"two"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_bodies_may_be_any_buffer(store: ObjectStore, kind: type) -> None:
    await store.put("key", kind(b"0123456789"))
    assert (await store.get("key")).body == b"0123456789"


async def test_a_part_of_a_buffer_is_stored_alone(store: ObjectStore) -> None:
    buffer = bytearray(b"0123456789")
    await store.put("key", memoryview(buffer)[2:5])
    assert (await store.get("key")).body == b"234"


async def test_an_empty_object_exists(store: ObjectStore) -> None:
    await store.put("empty", b"")

    assert (await store.head("empty")).size == 0
    assert await whole(store, "empty") == b""


async def test_if_none_match_creates_only(store: ObjectStore) -> None:
    await store.put("key", b"one", if_none_match=True)
    with pytest.raises(PreconditionFailed):
        await store.put("key", b"two", if_none_match=True)
    assert (await store.get("key")).body == b"one"


async def test_if_match_replaces_only_what_was_read(store: ObjectStore) -> None:
    first = await store.put("key", b"one")
    second = await store.put("key", b"two", if_match=first)

    with pytest.raises(PreconditionFailed):
        await store.put("key", b"three", if_match=first)
    found = await store.get("key")
    assert (found.body, found.etag) == (b"two", second)


async def test_if_match_never_creates(store: ObjectStore) -> None:
    with pytest.raises(PreconditionFailed):
        await store.put("missing", b"one", if_match=MISSING)
    with pytest.raises(NoSuchKey):
        await store.head("missing")


async def test_if_match_fails_after_deletion(store: ObjectStore) -> None:
    etag = await store.put("key", b"one")
    await store.delete("key")
    with pytest.raises(PreconditionFailed):
        await store.put("key", b"two", if_match=etag)


async def test_one_of_sixteen_creators_wins(store: ObjectStore) -> None:
    assert len(await race(store, "key", if_none_match=True)) == 1


async def test_one_of_sixteen_swappers_wins_and_its_bytes_stay(store: ObjectStore) -> None:
    etag = await store.put("key", b"start")
    for _ in range(3):
        winners = await race(store, "key", if_match=etag)
        found = await store.get("key")
        assert [found.etag] == list(winners.values())
        assert [found.body] == list(winners)
        etag = found.etag


async def race(
    store: ObjectStore, key: str, *, if_match: str | None = None, if_none_match: bool = False
) -> dict[bytes, str]:
    """Let sixteen writers try at once; return body and ETag of those who were told that they won."""

    async def one(body: bytes) -> tuple[bytes, str] | None:
        try:
            return body, await store.put(key, body, if_match=if_match, if_none_match=if_none_match)
        except PreconditionFailed:
            return None

    outcomes = await asyncio.gather(*(one(os.urandom(24)) for _ in range(16)))
    return dict(outcome for outcome in outcomes if outcome)


async def test_sixteen_counters_lose_no_step(store: ObjectStore) -> None:
    await store.put("counter", b"0")

    async def add(times: int) -> None:
        while times:
            found = await store.get("counter")
            try:
                await store.put("counter", b"%d" % (int(found.body) + 1), if_match=found.etag)
            except PreconditionFailed:
                continue
            times -= 1

    await asyncio.gather(*(add(2) for _ in range(16)))
    assert (await store.get("counter")).body == b"32"


async def test_the_boot_probe_finds_nothing_wrong_and_leaves_nothing(store: ObjectStore) -> None:
    assert await probe(store) == []
    assert [key async for key in store.list("")] == []


@pytest.mark.parametrize(
    ("start", "length"),
    [(0, None), (0, 1), (1, None), (100, 0), (MIB - 1, 2), (5 * MIB, None), (3, 5 * MIB), (0, 99 * MIB)],
)
async def test_ranges(store: ObjectStore, start: int, length: int | None) -> None:
    body = os.urandom(5 * MIB + 17)
    await store.put("big", body)
    wanted = body[start:] if length is None else body[start : start + length]
    assert await whole(store, "big", start, length) == wanted


@pytest.mark.parametrize("start", [10, 11, 5000])
async def test_a_range_behind_the_end_is_refused(store: ObjectStore, start: int) -> None:
    await store.put("key", b"0123456789")
    with pytest.raises(InvalidRange):
        await whole(store, "key", start)


async def test_a_reader_that_stops_early_leaves_the_store_usable(store: ObjectStore) -> None:
    body = os.urandom(9 * MIB)
    await store.put("key", body)

    async with aclosing(store.read("key")) as pieces:
        async for piece in pieces:
            assert bytes(piece) == body[: len(piece)]
            break

    assert await whole(store, "key", 9 * MIB - 5) == body[-5:]


async def test_deleting_is_repeatable(store: ObjectStore) -> None:
    await store.put("key", b"one")
    await store.delete("key")
    await store.delete("key")
    with pytest.raises(NoSuchKey):
        await store.get("key")


async def test_keys_are_listed_in_the_order_of_their_bytes(store: ObjectStore) -> None:
    keys = ["b/1", "b/Z", "b/a/x", "b/b.json", "b/é.json", "b/ü", "c"]
    for key in reversed(keys):
        await store.put(key, b"")

    assert [key async for key in store.list("")] == keys
    assert [key async for key in store.list("b/b")] == ["b/b.json"]
    assert [key async for key in store.list("b/", start_after="b/b.json")] == ["b/é.json", "b/ü"]
    assert [key async for key in store.list("d")] == []


async def test_a_key_may_begin_with_another(store: ObjectStore) -> None:
    keys = ["a", "a/x", "a/x/y", "a!z", "a0", "a/" + "k" * 250, "a/" + "ü" * 120 + "/e"]
    for key in keys:
        await store.put(key, key.encode())

    assert sorted([key async for key in store.list("a")]) == sorted(keys)
    for key in keys:
        assert (await store.get(key)).body == key.encode()


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/./b", "a/..", "k" * 901, "a\0b"])
async def test_keys_that_some_engine_could_not_hold_are_refused(store: ObjectStore, key: str) -> None:
    for call in (store.put(key, b""), store.get(key), store.head(key), store.delete(key)):
        with pytest.raises(ValueError, match="object key"):
            await call
