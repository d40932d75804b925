"""The client against a registry in this process: what it asks, what it makes of answers, when it goes on."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from modelio.registry import (
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
from opskit.retry import Backoff
from tests.kit.fakeregistry import FakeRegistry, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

REPO = "models/team/x"
QUICK = Patience(retry=20, backoff=Backoff(first=0.001, most=0.01))
ONCE = Patience(retry=0)
IMPATIENT = Patience(stall=0.5, retry=0)


@pytest.fixture
async def registry() -> AsyncIterator[FakeRegistry]:
    async with serving(FakeRegistry()) as fake:
        yield fake


@pytest.fixture
async def client(registry: FakeRegistry) -> AsyncIterator[RegistryClient]:
    async with RegistryClient(registry.url, patience=QUICK) as made:
        yield made


def pieces_of(data: bytes, size: int = 10_000) -> AsyncIterator[bytes]:
    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(data), size):
            yield data[at : at + size]

    return pieces()


async def joined(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


async def test_blob_goes_up_and_comes_down(registry: FakeRegistry, client: RegistryClient) -> None:
    data = os.urandom(300_001)
    session = await client.open_upload(REPO, "key", len(data))
    assert (session.offset, session.attempt) == (0, 1)
    assert await session.send(pieces_of(data), length=len(data)) == len(data)
    digest = registry.add(data)
    registry.blobs.clear()
    await session.close(digest)
    assert await client.head_blob(REPO, digest) == len(data)
    assert await joined(client.read_blob(REPO, digest)) == data
    assert await joined(client.read_blob(REPO, digest, 5, 7)) == data[5:12]
    assert await joined(client.read_blob(REPO, digest, 300_000)) == data[300_000:]


async def test_unknown_length_is_sent_too(registry: FakeRegistry, client: RegistryClient) -> None:
    session = await client.open_upload(REPO, "key")
    assert await session.send(pieces_of(b"x" * 99_999)) == 99_999


async def test_send_from_goes_on_at_the_registrys_offset(
    registry: FakeRegistry, client: RegistryClient
) -> None:
    data = os.urandom(1_000_000)
    registry.cut_body_after = 400_000
    session = await client.open_upload(REPO, "key", len(data))
    assert await session.send_from(lambda at: pieces_of(data[at:]), length=len(data)) == len(data)
    assert registry.received == len(data)
    await session.close(registry.add(data))


async def test_second_attempt_takes_over_and_fences_the_first(
    registry: FakeRegistry, client: RegistryClient
) -> None:
    first = await client.open_upload(REPO, "key")
    await first.send(pieces_of(b"a" * 50_000))
    second = await client.open_upload(REPO, "key")
    assert (second.offset, second.attempt) == (50_000, 2)
    assert second.digest_so_far is not None
    with pytest.raises(SessionLost):
        await first.send_from(lambda _: pieces_of(b"b" * 50_000))
    assert (await client.open_upload(REPO, "key", restart=True)).offset == 0


async def test_wrong_digest_is_its_own_error(client: RegistryClient) -> None:
    session = await client.open_upload(REPO, "key")
    await session.send(pieces_of(b"abc"))
    with pytest.raises(DigestMismatch):
        await session.close("sha256:" + "0" * 64)


async def test_close_is_repeatable(registry: FakeRegistry, client: RegistryClient) -> None:
    session = await client.open_upload(REPO, "key")
    await session.send(pieces_of(b"abc"))
    digest = registry.add(b"abc")
    await session.close(digest)
    await session.close(digest)
    registry.blobs.clear()
    with pytest.raises(NotFound):
        await session.close(digest)


class Broken(Exception):
    pass


async def test_error_of_the_source_is_raised_as_it_is(registry: FakeRegistry, client: RegistryClient) -> None:
    closed = asyncio.Event()

    async def source() -> AsyncIterator[bytes]:
        try:
            yield b"x" * 100_000
            raise Broken
        finally:
            closed.set()

    session = await client.open_upload(REPO, "key")
    with pytest.raises(Broken):
        await session.send(source(), length=200_000)
    assert closed.is_set()


@pytest.mark.parametrize("length", [5, 15])
async def test_source_of_another_length_is_refused(client: RegistryClient, length: int) -> None:
    session = await client.open_upload(REPO, "key")
    with pytest.raises(ValueError, match="the source yielded 10 bytes"):
        await session.send(pieces_of(b"0123456789"), length=length)


async def test_source_is_not_read_ahead_of_the_connection(registry: FakeRegistry) -> None:
    given = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal given
        while True:
            given += 1
            yield bytes(1 << 20)

    registry.hang("PATCH", "")
    async with RegistryClient(registry.url, patience=IMPATIENT) as client:
        session = await client.open_upload(REPO, "key")
        with pytest.raises(TransferStalled):
            await session.send(endless())
    assert given < 20


async def test_slow_source_is_not_a_stall(registry: FakeRegistry) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"a"
        await asyncio.sleep(2 * IMPATIENT.stall)
        yield b"b"

    async with RegistryClient(registry.url, patience=IMPATIENT) as client:
        session = await client.open_upload(REPO, "key")
        assert await session.send(slow()) == 2


async def test_reading_goes_on_where_the_connection_was_lost(
    registry: FakeRegistry, client: RegistryClient
) -> None:
    data = os.urandom(500_000)
    digest = registry.add(data)
    registry.cut_body_after = 123_456
    assert await joined(client.read_blob(REPO, digest)) == data
    assert len([seen for seen, _ in registry.seen if seen.startswith("GET")]) == 2


async def test_ranges_come_in_order_from_several_readers(
    registry: FakeRegistry, client: RegistryClient
) -> None:
    data = os.urandom(1_000_003)
    digest = registry.add(data)
    registry.cut_body_after = 1000
    read = client.read_blob_ranges(REPO, digest, 3, 1_000_000, readers=3, range_bytes=70_000)
    assert await joined(read) == data[3:]


async def test_ranges_abandoned_leave_nothing_running(registry: FakeRegistry, client: RegistryClient) -> None:
    digest = registry.add(os.urandom(1_000_000))
    before = asyncio.all_tasks()
    read = client.read_blob_ranges(REPO, digest, 0, 1_000_000, range_bytes=1000)
    await anext(read)
    await read.aclose()
    left = [task.get_coro() for task in asyncio.all_tasks() - before]
    assert [coro for coro in left if "BlobReader" in str(coro)] == []


@pytest.mark.parametrize(
    ("answered", "body"),
    [("bytes 1-10/100", b"0123456789"), ("bytes 0-4/100", b"01234"), ("nonsense", b"0123456789")],
)
async def test_other_range_than_asked_is_refused(
    registry: FakeRegistry, client: RegistryClient, answered: str, body: bytes
) -> None:
    async def other(request: web.Request) -> web.StreamResponse:
        return web.Response(status=206, body=body, headers={"Content-Range": answered})

    registry.handle("GET", "/blobs/", other)
    with pytest.raises(ProtocolViolation):
        await joined(client.read_blob(REPO, "sha256:" + "1" * 64, 0, 10))


async def test_range_of_all_may_be_answered_whole(registry: FakeRegistry, client: RegistryClient) -> None:
    async def whole(request: web.Request) -> web.StreamResponse:
        return web.Response(status=200, body=b"0123456789")

    registry.handle("GET", "/blobs/", whole)
    assert await joined(client.read_blob(REPO, "sha256:" + "1" * 64, 0, 10)) == b"0123456789"


async def test_range_ignored_by_the_server_is_refused(registry: FakeRegistry, client: RegistryClient) -> None:
    async def whole(request: web.Request) -> web.StreamResponse:
        return web.Response(status=200, body=b"0123456789")

    registry.handle("GET", "/blobs/", whole)
    with pytest.raises(ProtocolViolation, match="ignored"):
        await joined(client.read_blob(REPO, "sha256:" + "1" * 64, 5, 5))


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_busy_registry_is_asked_again(
    registry: FakeRegistry, client: RegistryClient, status: int
) -> None:
    digest = registry.add(b"abc")
    registry.fail("HEAD", "/blobs/", status, Retry_After="0")
    assert await client.head_blob(REPO, digest) == 3


async def test_no_patience_means_one_try(registry: FakeRegistry) -> None:
    registry.fail("HEAD", "/blobs/", 503, Retry_After="7")
    async with RegistryClient(registry.url, patience=ONCE) as client:
        with pytest.raises(RegistryUnavailable) as caught:
            await client.head_blob(REPO, "sha256:" + "1" * 64)
    assert (caught.value.retriable, caught.value.status, caught.value.retry_after) == (True, 503, 7.0)


@pytest.mark.parametrize(("status", "kind"), [(401, NotAuthorised), (403, Denied)])
async def test_refusals_are_final(
    registry: FakeRegistry, client: RegistryClient, status: int, kind: type[Exception]
) -> None:
    registry.fail("GET", "/manifests/", status)
    with pytest.raises(kind, match="TESTED on purpose"):
        await client.get_manifest(REPO, "published")
    assert len(registry.seen) == 1


async def test_unreachable_registry_is_retriable() -> None:
    async with RegistryClient("http://127.0.0.1:1", patience=ONCE) as client:
        with pytest.raises(RegistryUnavailable):
            await client.head_blob(REPO, "sha256:" + "1" * 64)


async def test_silent_registry_is_a_stall(registry: FakeRegistry) -> None:
    registry.hang("GET", "/manifests/")
    async with RegistryClient(registry.url, patience=IMPATIENT) as client:
        with pytest.raises(TransferStalled):
            await client.get_manifest(REPO, "published")


async def test_manifests(registry: FakeRegistry, client: RegistryClient) -> None:
    body = b'{"schemaVersion":2}'
    media_type = "application/vnd.oci.image.manifest.v1+json"
    digest = await client.put_manifest(REPO, "published", media_type, body, tags=("b", "c"))
    for reference in ("published", "b", "c", digest):
        manifest = await client.get_manifest(REPO, reference)
        assert (manifest.body, manifest.media_type, manifest.digest) == (body, media_type, digest)
    await client.delete_manifest(REPO, "b")
    await client.delete_manifest(REPO, "b")
    with pytest.raises(NotFound):
        await client.get_manifest(REPO, "b")


async def test_manifest_with_other_bytes_is_refused(registry: FakeRegistry, client: RegistryClient) -> None:
    digest = "sha256:" + "1" * 64
    registry.manifests[digest] = ("application/vnd.oci.image.manifest.v1+json", b"{}")
    with pytest.raises(DigestMismatch):
        await client.get_manifest(REPO, digest)


async def test_oversized_answer_is_not_swallowed(registry: FakeRegistry, client: RegistryClient) -> None:
    registry.manifests["published"] = ("application/vnd.oci.image.manifest.v1+json", bytes(5 << 20))
    with pytest.raises(ProtocolViolation, match="more than"):
        await client.get_manifest(REPO, "published")


async def test_mount_and_small_blob(registry: FakeRegistry, client: RegistryClient) -> None:
    digest = await client.push_blob(REPO, b"config")
    assert await client.mount_blob(REPO, digest, "models/team/y")
    assert not await client.mount_blob(REPO, "sha256:" + "1" * 64, "models/team/y")
    assert registry.sessions == {}
