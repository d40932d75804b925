"""Ranges straight into memory: whole, in pieces, cut, refused, stalled, cancelled."""

from __future__ import annotations

import asyncio
import os
import ssl
from typing import TYPE_CHECKING

import pytest
import trustme
from aiohttp import web

from modelio.registry import (
    Denied,
    GrantSource,
    NotFound,
    Patience,
    ProtocolViolation,
    RegistryClient,
    RegistryUnavailable,
    TransferStalled,
)
from opskit.retry import Backoff
from tests.kit.fakeregistry import FakeRegistry, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

REPO = "models/team/x"
QUICK = Patience(retry=20, backoff=Backoff(first=0.001, most=0.01))
ONCE = Patience(retry=0)
IMPATIENT = Patience(stall=0.3, retry=0)
DATA = os.urandom(3_000_001)


@pytest.fixture
async def registry() -> AsyncIterator[FakeRegistry]:
    async with serving(FakeRegistry()) as fake:
        yield fake


async def read(client: RegistryClient, digest: str, start: int = 0, stop: int = len(DATA)) -> bytes:
    memory = bytearray(stop - start)
    async with client.direct_reads(2) as reads:
        await reads.into(REPO, digest, start, memoryview(memory))
    return bytes(memory)


async def test_ranges_fill_the_memory(registry: FakeRegistry) -> None:
    digest = registry.add(DATA)
    async with RegistryClient(registry.url, patience=ONCE) as client:
        assert await read(client, digest) == DATA
        assert await read(client, digest, 1_000_000, 1_000_001) == DATA[1_000_000:1_000_001]
        assert await read(client, digest, 7, 7) == b""
    assert len(registry.ranges) == 2


async def test_several_at_once_share_few_connections(registry: FakeRegistry) -> None:
    digest = registry.add(DATA)
    memory = bytearray(len(DATA))
    async with RegistryClient(registry.url, patience=ONCE) as client, client.direct_reads(3) as reads:
        with memoryview(memory) as view:
            step = 100_000
            await asyncio.gather(
                *(reads.into(REPO, digest, at, view[at : at + step]) for at in range(0, len(DATA), step))
            )
    assert memory == DATA
    assert registry.connections <= 3


async def test_lost_connection_costs_a_slice_at_most(registry: FakeRegistry) -> None:
    digest = registry.add(DATA)
    registry.cut_body_after = 2_500_000
    async with RegistryClient(registry.url, patience=QUICK) as client:
        assert await read(client, digest) == DATA
    first, second = registry.ranges
    assert first == (0, len(DATA))
    assert second[0] >= 2 << 20


async def test_refused_grant_is_renewed(registry: FakeRegistry, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("projected")
    registry.grant = "to be asked for"
    digest = registry.add(DATA)
    auth = GrantSource(token, "copy-1")
    async with RegistryClient(registry.url, auth=auth, patience=ONCE) as client:
        assert await read(client, digest) == DATA
        registry.grant = "revoked meanwhile"
        assert await read(client, digest) == DATA
    assert registry.grants_given == 2


@pytest.mark.parametrize(("status", "kind"), [(403, Denied), (404, NotFound), (302, ProtocolViolation)])
async def test_refusals_are_final(registry: FakeRegistry, status: int, kind: type[Exception]) -> None:
    registry.fail("GET", "/blobs/", status)
    async with RegistryClient(registry.url, patience=QUICK) as client:
        with pytest.raises(kind):
            await read(client, registry.add(DATA))
    assert len(registry.seen) == 1


async def test_busy_registry_is_asked_again(registry: FakeRegistry) -> None:
    digest = registry.add(DATA)
    registry.fail("GET", "/blobs/", 503)
    async with RegistryClient(registry.url, patience=QUICK) as client:
        assert await read(client, digest) == DATA


async def test_silence_is_a_stall(registry: FakeRegistry) -> None:
    digest = registry.add(DATA)
    registry.hang("GET", "/blobs/")
    async with RegistryClient(registry.url, patience=IMPATIENT) as client:
        with pytest.raises(TransferStalled):
            await read(client, digest)


async def test_nobody_there_is_retriable() -> None:
    async with RegistryClient("http://127.0.0.1:1", patience=ONCE) as client:
        with pytest.raises(RegistryUnavailable):
            await read(client, "sha256:" + "1" * 64)


async def test_other_range_than_asked_is_refused(registry: FakeRegistry) -> None:
    async def other(request: web.Request) -> web.StreamResponse:
        return web.Response(status=206, body=b"x" * 10, headers={"Content-Range": "bytes 5-14/100"})

    registry.handle("GET", "/blobs/", other)
    async with RegistryClient(registry.url, patience=ONCE) as client:
        with pytest.raises(ProtocolViolation):
            await read(client, "sha256:" + "1" * 64, 0, 10)


async def test_cancelled_read_leaves_no_thread_behind(registry: FakeRegistry) -> None:
    digest = registry.add(DATA)
    begun = asyncio.Event()

    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=206, headers={"Content-Range": f"bytes 0-{len(DATA) - 1}/9"})
        response.content_length = len(DATA)
        await response.prepare(request)
        await response.write(DATA[:1000])
        begun.set()
        await registry.stopping.wait()
        return response

    registry.handle("GET", "/blobs/", half)
    memory = bytearray(len(DATA))
    async with RegistryClient(registry.url, patience=Patience(stall=60)) as client:
        async with client.direct_reads(1) as reads:
            reading = asyncio.create_task(reads.into(REPO, digest, 0, memoryview(memory)))
            await begun.wait()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
        assert await read(client, digest) == DATA


async def test_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with serving(FakeRegistry(), context) as registry:
        digest = registry.add(DATA)
        trust = ssl.create_default_context()
        authority.configure_trust(trust)
        async with RegistryClient(registry.url, tls=trust, patience=ONCE) as client:
            assert await read(client, digest) == DATA
        async with RegistryClient(registry.url, patience=ONCE) as client:
            with pytest.raises(RegistryUnavailable, match="certificate"):
                await read(client, digest)
