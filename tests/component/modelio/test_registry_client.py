"""The client against a real registry: what it asks, what it makes of answers, when it goes on."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

import pytest

from modelio.registry import (
    MANIFEST_MEDIA_TYPE,
    Denied,
    DigestMismatch,
    NotAuthorised,
    NotFound,
    Patience,
    ProtocolViolation,
    RegistryClient,
    RegistryUnavailable,
    SessionLost,
    TransferStalled,
)
from tests.kit.dmcr import Dmcr, digest_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.kit.httpproxy import HttpProxy

pytestmark = pytest.mark.asyncio(loop_scope="session")

ONCE = Patience(retry=0)
IMPATIENT = Patience(stall=0.5, retry=0)
RECEIVED = "d8_ai_models_dmcr_received_bytes_total"
UNKNOWN = "sha256:" + "1" * 64


def pieces_of(data: bytes, size: int = 10_000) -> AsyncIterator[bytes]:
    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(data), size):
            yield data[at : at + size]

    return pieces()


async def joined(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


async def manifest(client: RegistryClient, repo: str) -> bytes:
    """Return a manifest that the registry takes."""
    empty = await client.push_blob(repo, b"{}")
    config = {"mediaType": "application/vnd.oci.empty.v1+json", "digest": empty, "size": 2}
    layer = {"mediaType": "application/octet-stream", "digest": empty, "size": 2}
    document = {"schemaVersion": 2, "mediaType": MANIFEST_MEDIA_TYPE, "artifactType": "a/b"}
    return json.dumps(document | {"config": config, "layers": [layer]}).encode()


async def test_blob_goes_up_and_comes_down(client: RegistryClient, repo: str) -> None:
    data = os.urandom(300_001)
    digest = digest_of(data)
    session = await client.open_upload(repo, "key", len(data))
    assert (session.offset, session.attempt) == (0, 1)
    assert await session.send(pieces_of(data), length=len(data)) == len(data)
    await session.close(digest)
    assert await client.head_blob(repo, digest) == len(data)
    assert await joined(client.read_blob(repo, digest)) == data
    assert await joined(client.read_blob(repo, digest, 5, 7)) == data[5:12]
    assert await joined(client.read_blob(repo, digest, 300_000)) == data[300_000:]


async def test_unknown_length_is_sent_too(client: RegistryClient, repo: str) -> None:
    session = await client.open_upload(repo, "key")
    assert await session.send(pieces_of(b"x" * 99_999)) == 99_999


async def test_send_from_goes_on_at_the_registrys_offset(
    client: RegistryClient, proxy: HttpProxy, dmcr: Dmcr, repo: str
) -> None:
    data = os.urandom(1_000_000)
    before = await dmcr.counter(RECEIVED)
    proxy.cut_request("PATCH", "", after=400_000)
    session = await client.open_upload(repo, "key", len(data))
    assert await session.send_from(lambda at: pieces_of(data[at:]), length=len(data)) == len(data)
    await session.close(digest_of(data))
    assert await dmcr.counter(RECEIVED) - before == len(data)
    assert len(proxy.asked("PATCH")) >= 2


async def test_second_attempt_takes_over_and_fences_the_first(client: RegistryClient, repo: str) -> None:
    first = await client.open_upload(repo, "key")
    await first.send(pieces_of(b"a" * 50_000))
    second = await client.open_upload(repo, "key")
    assert (second.offset, second.attempt) == (50_000, 2)
    assert second.digest_so_far == digest_of(b"a" * 50_000)
    with pytest.raises(SessionLost):
        await first.send_from(lambda _: pieces_of(b"b" * 50_000))
    assert (await client.open_upload(repo, "key", restart=True)).offset == 0


async def test_wrong_digest_is_its_own_error(client: RegistryClient, repo: str) -> None:
    session = await client.open_upload(repo, "key")
    await session.send(pieces_of(b"abc"))
    with pytest.raises(DigestMismatch):
        await session.close(UNKNOWN)


async def test_close_is_repeatable(client: RegistryClient, repo: str) -> None:
    session = await client.open_upload(repo, "key")
    await session.send(pieces_of(b"abc"))
    await session.close(digest_of(b"abc"))
    await session.close(digest_of(b"abc"))


async def test_closing_what_is_nowhere_is_not_found(
    client: RegistryClient, proxy: HttpProxy, repo: str
) -> None:
    session = await client.open_upload(repo, "key")
    proxy.fail("PUT", "", 404)
    with pytest.raises(NotFound):
        await session.close(UNKNOWN)


class Broken(Exception):
    pass


async def test_error_of_the_source_is_raised_as_it_is(
    client: RegistryClient, proxy: HttpProxy, repo: str
) -> None:
    closed = asyncio.Event()

    async def source() -> AsyncIterator[bytes]:
        try:
            yield b"x" * 100_000
            raise Broken
        finally:
            closed.set()

    session = await client.open_upload(repo, "key")
    with pytest.raises(Broken):
        await session.send(source(), length=200_000)
    assert closed.is_set()


@pytest.mark.parametrize("length", [5, 15])
async def test_source_of_another_length_is_refused(client: RegistryClient, repo: str, length: int) -> None:
    session = await client.open_upload(repo, "key")
    with pytest.raises(ValueError, match="the source yielded 10 bytes"):
        await session.send(pieces_of(b"0123456789"), length=length)


async def test_source_is_not_read_ahead_of_the_connection(proxy: HttpProxy, repo: str) -> None:
    given = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal given
        while True:
            given += 1
            yield bytes(1 << 20)

    proxy.hang("PATCH", "")
    async with RegistryClient(proxy.url, patience=IMPATIENT) as client:
        session = await client.open_upload(repo, "key")
        with pytest.raises(TransferStalled):
            await session.send(endless())
    assert given < 20


async def test_slow_source_is_not_a_stall(proxy: HttpProxy, repo: str) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"a"
        await asyncio.sleep(2 * IMPATIENT.stall)
        yield b"b"

    async with RegistryClient(proxy.url, patience=IMPATIENT) as client:
        session = await client.open_upload(repo, "key")
        assert await session.send(slow()) == 2


async def test_reading_goes_on_where_the_connection_was_lost(
    client: RegistryClient, proxy: HttpProxy, repo: str
) -> None:
    data = os.urandom(500_000)
    digest = await client.push_blob(repo, data)
    proxy.cut_answer("GET", "/blobs/", after=123_456)
    assert await joined(client.read_blob(repo, digest)) == data
    assert len(proxy.asked("GET")) == 2


async def test_ranges_come_in_order_from_several_readers(
    client: RegistryClient, proxy: HttpProxy, repo: str
) -> None:
    data = os.urandom(1_000_003)
    digest = await client.push_blob(repo, data)
    proxy.cut_answer("GET", "/blobs/", after=1000)
    read = client.read_blob_ranges(repo, digest, 3, 1_000_000, readers=3, range_bytes=70_000)
    assert await joined(read) == data[3:]


async def test_ranges_abandoned_leave_nothing_running(
    client: RegistryClient, proxy: HttpProxy, repo: str
) -> None:
    digest = await client.push_blob(repo, os.urandom(1_000_000))
    before = asyncio.all_tasks()
    read = client.read_blob_ranges(repo, digest, 0, 1_000_000, range_bytes=1000)
    await anext(read)
    await read.aclose()
    left = [task.get_coro() for task in asyncio.all_tasks() - before]
    assert [coro for coro in left if "BlobReader" in str(coro)] == []


@pytest.mark.parametrize(
    ("answered", "body"),
    [("bytes 1-10/100", b"0123456789"), ("bytes 0-4/100", b"01234"), ("nonsense", b"0123456789")],
)
async def test_other_range_than_asked_is_refused(
    client: RegistryClient, proxy: HttpProxy, repo: str, answered: str, body: bytes
) -> None:
    proxy.reply("GET", "/blobs/", 206, body, {"Content-Range": answered})
    with pytest.raises(ProtocolViolation):
        await joined(client.read_blob(repo, UNKNOWN, 0, 10))


async def test_range_of_all_may_be_answered_whole(
    client: RegistryClient, proxy: HttpProxy, repo: str
) -> None:
    digest = await client.push_blob(repo, b"0123456789")
    proxy.ignore_range("GET", "/blobs/")
    assert await joined(client.read_blob(repo, digest, 0, 10)) == b"0123456789"


async def test_range_ignored_by_the_server_is_refused(
    client: RegistryClient, proxy: HttpProxy, repo: str
) -> None:
    digest = await client.push_blob(repo, b"0123456789")
    proxy.ignore_range("GET", "/blobs/")
    with pytest.raises(ProtocolViolation, match="ignored"):
        await joined(client.read_blob(repo, digest, 5, 5))


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_busy_registry_is_asked_again(
    client: RegistryClient, proxy: HttpProxy, repo: str, status: int
) -> None:
    digest = await client.push_blob(repo, b"abc")
    proxy.fail("HEAD", "/blobs/", status, Retry_After="0")
    assert await client.head_blob(repo, digest) == 3


async def test_no_patience_means_one_try(proxy: HttpProxy, repo: str) -> None:
    proxy.fail("HEAD", "/blobs/", 503, Retry_After="7")
    async with RegistryClient(proxy.url, patience=ONCE) as client:
        with pytest.raises(RegistryUnavailable) as caught:
            await client.head_blob(repo, UNKNOWN)
    assert (caught.value.retriable, caught.value.status, caught.value.retry_after) == (True, 503, 7.0)


@pytest.mark.parametrize(("status", "kind"), [(401, NotAuthorised), (403, Denied)])
async def test_refusals_are_final(
    client: RegistryClient, proxy: HttpProxy, repo: str, status: int, kind: type[Exception]
) -> None:
    proxy.fail("GET", "/manifests/", status)
    with pytest.raises(kind, match="TESTED on purpose"):
        await client.get_manifest(repo, "published")
    assert len(proxy.seen) == 1


async def test_unreachable_registry_is_retriable(repo: str) -> None:
    async with RegistryClient("http://127.0.0.1:1", patience=ONCE) as client:
        with pytest.raises(RegistryUnavailable):
            await client.head_blob(repo, UNKNOWN)


async def test_silent_registry_is_a_stall(proxy: HttpProxy, repo: str) -> None:
    proxy.hang("GET", "/manifests/")
    async with RegistryClient(proxy.url, patience=IMPATIENT) as client:
        with pytest.raises(TransferStalled):
            await client.get_manifest(repo, "published")


async def test_manifests(client: RegistryClient, repo: str) -> None:
    body = await manifest(client, repo)
    digest = await client.put_manifest(repo, "published", MANIFEST_MEDIA_TYPE, body)
    for reference in ("published", digest):
        found = await client.get_manifest(repo, reference)
        assert (found.body, found.media_type, found.digest) == (body, MANIFEST_MEDIA_TYPE, digest)
    await client.delete_manifest(repo, "published")
    await client.delete_manifest(repo, "published")
    with pytest.raises(NotFound):
        await client.get_manifest(repo, "published")


async def test_manifest_with_other_bytes_is_refused(
    client: RegistryClient, proxy: HttpProxy, repo: str
) -> None:
    proxy.reply("GET", "/manifests/", 200, b"{}", {"Content-Type": MANIFEST_MEDIA_TYPE})
    with pytest.raises(DigestMismatch):
        await client.get_manifest(repo, UNKNOWN)


async def test_oversized_answer_is_not_swallowed(client: RegistryClient, proxy: HttpProxy, repo: str) -> None:
    proxy.reply("GET", "/manifests/", 200, bytes(5 << 20), {"Content-Type": MANIFEST_MEDIA_TYPE})
    with pytest.raises(ProtocolViolation, match="more than"):
        await client.get_manifest(repo, "published")


async def test_a_refusal_that_comes_in_pieces_is_read_whole(
    client: RegistryClient, proxy: HttpProxy, repo: str
) -> None:
    session = await client.open_upload(repo, "key")
    proxy.drip("PUT", "", 400, b'{"errors":[{"code":"DIGEST_INVALID","message":"other bytes"}]}')
    with pytest.raises(DigestMismatch, match="other bytes"):
        await session.close(UNKNOWN)


async def test_a_small_blob_is_sent_once(client: RegistryClient, proxy: HttpProxy, repo: str) -> None:
    digest = await client.push_blob(repo, b"config")
    assert await client.push_blob(repo, b"config") == digest
    assert await client.head_blob(repo, digest) == 6
    assert len(proxy.asked("POST", "/uploads/")) == 1
