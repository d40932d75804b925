"""Ranges straight into memory from a real registry: whole, cut, refused, stalled, cancelled."""

from __future__ import annotations

import asyncio
import os
import ssl
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
import trustme

from modelio.registry import (
    Denied,
    NotFound,
    Patience,
    ProtocolViolation,
    RegistryClient,
    RegistryUnavailable,
    TransferStalled,
)
from tests.kit.httpproxy import HttpProxy

if TYPE_CHECKING:
    from tests.kit.dmcr import Dmcr

pytestmark = pytest.mark.asyncio(loop_scope="session")

REPO = "models/team/direct"
ONCE = Patience(retry=0)
IMPATIENT = Patience(stall=0.3, retry=0)
DATA = os.urandom(3_000_001)
UNKNOWN = "sha256:" + "1" * 64


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def digest(dmcr: Dmcr) -> str:
    return await dmcr.push_blob(REPO, DATA)


async def read(client: RegistryClient, digest: str, start: int = 0, stop: int = len(DATA)) -> bytes:
    memory = bytearray(stop - start)
    async with client.direct_reads(2) as reads:
        await reads.into(REPO, digest, start, memoryview(memory))
    return bytes(memory)


async def test_ranges_fill_the_memory(client: RegistryClient, proxy: HttpProxy, digest: str) -> None:
    assert await read(client, digest) == DATA
    assert await read(client, digest, 1_000_000, 1_000_001) == DATA[1_000_000:1_000_001]
    assert await read(client, digest, 7, 7) == b""
    assert len(proxy.seen) == 2


async def test_several_at_once_share_few_connections(
    client: RegistryClient, proxy: HttpProxy, digest: str
) -> None:
    memory = bytearray(len(DATA))
    async with client.direct_reads(3) as reads:
        with memoryview(memory) as view:
            step = 100_000
            await asyncio.gather(
                *(reads.into(REPO, digest, at, view[at : at + step]) for at in range(0, len(DATA), step))
            )
    assert memory == DATA
    assert proxy.connections <= 3


async def test_lost_connection_costs_a_slice_at_most(
    client: RegistryClient, proxy: HttpProxy, digest: str
) -> None:
    proxy.cut_answer("GET", "", after=2_500_000)
    assert await read(client, digest) == DATA
    first, second = (one.range for one in proxy.seen)
    assert first == f"bytes=0-{len(DATA) - 1}"
    assert second in {f"bytes={at}-{len(DATA) - 1}" for at in range(2 << 20, 2_500_001)}


@pytest.mark.parametrize(("status", "kind"), [(403, Denied), (404, NotFound), (302, ProtocolViolation)])
async def test_refusals_are_final(
    client: RegistryClient, proxy: HttpProxy, digest: str, status: int, kind: type[Exception]
) -> None:
    proxy.fail("GET", "/blobs/", status)
    with pytest.raises(kind):
        await read(client, digest)
    assert len(proxy.seen) == 1


async def test_busy_registry_is_asked_again(client: RegistryClient, proxy: HttpProxy, digest: str) -> None:
    proxy.fail("GET", "/blobs/", 503)
    assert await read(client, digest) == DATA


@pytest.mark.parametrize("after", [None, 1_500_000])
async def test_silence_is_a_stall(proxy: HttpProxy, digest: str, after: int | None) -> None:
    if after is None:
        proxy.hang("GET", "/blobs/")
    else:
        proxy.cut_answer("GET", "/blobs/", after, stall=True)
    async with RegistryClient(proxy.url, patience=IMPATIENT) as client:
        with pytest.raises(TransferStalled):
            await read(client, digest)


async def test_nobody_there_is_retriable() -> None:
    async with RegistryClient("http://127.0.0.1:1", patience=ONCE) as client:
        with pytest.raises(RegistryUnavailable):
            await read(client, UNKNOWN)


async def test_other_range_than_asked_is_refused(client: RegistryClient, proxy: HttpProxy) -> None:
    proxy.reply("GET", "/blobs/", 206, b"x" * 10, {"Content-Range": "bytes 5-14/100"})
    with pytest.raises(ProtocolViolation):
        await read(client, UNKNOWN, 0, 10)


async def test_range_ignored_by_the_server_is_refused(
    client: RegistryClient, proxy: HttpProxy, digest: str
) -> None:
    proxy.ignore_range("GET", "/blobs/")
    with pytest.raises(ProtocolViolation, match="ignored"):
        await read(client, digest, 5)


async def test_cancelled_read_leaves_no_thread_behind(proxy: HttpProxy, digest: str) -> None:
    begun = proxy.cut_answer("GET", "/blobs/", 1000, stall=True)
    memory = bytearray(len(DATA))
    async with RegistryClient(proxy.url, patience=Patience(stall=60)) as client:
        async with client.direct_reads(1) as reads:
            reading = asyncio.create_task(reads.into(REPO, digest, 0, memoryview(memory)))
            await begun.wait()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
        assert await read(client, digest) == DATA


async def test_tls(dmcr: Dmcr, digest: str) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with HttpProxy(dmcr.url, context) as proxy:
        trust = ssl.create_default_context()
        authority.configure_trust(trust)
        async with RegistryClient(proxy.url, tls=trust, patience=ONCE) as client:
            assert await read(client, digest) == DATA
        async with RegistryClient(proxy.url, patience=ONCE) as client:
            with pytest.raises(RegistryUnavailable, match="certificate"):
                await read(client, digest)
