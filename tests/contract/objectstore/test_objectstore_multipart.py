"""What every engine promises about multipart uploads."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from objectstore.port import InvalidPart, NoSuchKey, PartInfo
from tests.contract.objectstore.test_objectstore_objects import whole

if TYPE_CHECKING:
    from objectstore.port import ObjectStore

#: S3 takes no smaller part, except as the last.
PART = 5 << 20
KEY = "data/ab/object"


async def stored(store: ObjectStore, upload: str, number: int, body: bytes) -> PartInfo:
    return PartInfo(number, len(body), await store.upload_part(KEY, upload, number, body))


async def test_parts_sent_in_any_order_make_the_object(store: ObjectStore) -> None:
    bodies = {number: os.urandom(PART) for number in (1, 2, 3)} | {4: os.urandom(1234)}
    upload = await store.create_multipart(KEY)
    first = await asyncio.gather(*(stored(store, upload, n, bodies[n]) for n in (2, 1)))
    later = [await stored(store, upload, n, bodies[n]) for n in (4, 3)]
    parts = sorted([*first, *later], key=lambda part: part.number)

    assert await store.list_parts(KEY, upload) == parts
    with pytest.raises(NoSuchKey):
        await store.head(KEY)
    etag = await store.complete_multipart(KEY, upload, parts)

    assert (await store.head(KEY)).etag == etag
    assert await whole(store, KEY) == b"".join(bodies[n] for n in (1, 2, 3, 4))
    assert await store.list_multiparts(KEY) == []


async def test_the_object_has_exactly_the_named_parts(store: ObjectStore) -> None:
    bodies = [os.urandom(PART) for _ in range(3)]
    upload = await store.create_multipart(KEY)
    parts = [await stored(store, upload, n, body) for n, body in enumerate(bodies, 1)]

    await store.complete_multipart(KEY, upload, [parts[0], parts[2]])

    assert await whole(store, KEY) == bodies[0] + bodies[2]


async def test_parts_of_different_sizes(store: ObjectStore) -> None:
    bodies = [os.urandom(size) for size in (PART, PART + 333, PART + 1, 7)]
    upload = await store.create_multipart(KEY)
    parts = list(await asyncio.gather(*(stored(store, upload, n, body) for n, body in enumerate(bodies, 1))))

    await store.complete_multipart(KEY, upload, parts)

    assert await whole(store, KEY) == b"".join(bodies)


async def test_a_part_sent_again_replaces_the_first(store: ObjectStore) -> None:
    upload = await store.create_multipart(KEY)
    old = await stored(store, upload, 1, os.urandom(PART))
    body = os.urandom(PART)
    new = await stored(store, upload, 1, body)
    assert old.etag != new.etag

    await store.complete_multipart(KEY, upload, [new])

    assert await whole(store, KEY) == body


async def test_a_replaced_part_never_stands_for_the_one_that_was_named(store: ObjectStore) -> None:
    upload = await store.create_multipart(KEY)
    body = os.urandom(PART)
    old = await stored(store, upload, 1, body)
    await stored(store, upload, 1, os.urandom(PART))

    try:
        await store.complete_multipart(KEY, upload, [old])
    except InvalidPart:
        return
    assert await whole(store, KEY) == body


async def test_a_part_that_is_not_stored_is_refused_and_the_upload_stays(store: ObjectStore) -> None:
    upload = await store.create_multipart(KEY)
    body = os.urandom(PART)
    part = await stored(store, upload, 1, body)

    with pytest.raises(InvalidPart):
        await store.complete_multipart(KEY, upload, [part, PartInfo(2, 3, part.etag)])
    await store.complete_multipart(KEY, upload, [part])
    assert await whole(store, KEY) == body


async def test_the_same_part_sent_by_two_at_once_is_one_of_them(store: ObjectStore) -> None:
    upload = await store.create_multipart(KEY)
    bodies = [os.urandom(PART) for _ in range(4)]
    sent = await asyncio.gather(*(stored(store, upload, 1, body) for body in bodies))
    (kept,) = await store.list_parts(KEY, upload)

    await store.complete_multipart(KEY, upload, [kept])

    assert await whole(store, KEY) == bodies[[part.etag for part in sent].index(kept.etag)]


async def test_an_aborted_upload_is_gone_and_abort_is_repeatable(store: ObjectStore) -> None:
    upload = await store.create_multipart(KEY)
    part = await stored(store, upload, 1, b"x" * PART)
    assert await store.list_multiparts("data/") == [(KEY, upload)]

    await store.abort_multipart(KEY, upload)
    await store.abort_multipart(KEY, upload)

    assert await store.list_multiparts("data/") == []
    for call in (
        store.upload_part(KEY, upload, 2, b"x"),
        store.list_parts(KEY, upload),
        store.complete_multipart(KEY, upload, [part]),
    ):
        with pytest.raises(NoSuchKey):
            await call


async def test_completing_replaces_an_object_whole(store: ObjectStore) -> None:
    await store.put(KEY, b"old")
    upload = await store.create_multipart(KEY)
    body = os.urandom(PART + 1)
    parts = [await stored(store, upload, 1, body[:PART]), await stored(store, upload, 2, body[PART:])]
    await store.complete_multipart(KEY, upload, parts)
    assert await whole(store, KEY) == body
