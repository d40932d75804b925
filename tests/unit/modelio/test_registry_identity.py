"""Grants, redirects and TLS: what the client shows to whom."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import pytest
import trustme
from aiohttp import web

from modelio.registry import (
    Denied,
    GrantSource,
    NotAuthorised,
    Patience,
    ProtocolViolation,
    RegistryClient,
    RegistryUnavailable,
    TokenFileUnreadable,
)
from opskit.clock import ManualClock
from opskit.retry import Backoff
from tests.kit.fakeregistry import FakeRegistry, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

REPO = "models/team/x"
QUICK = Patience(retry=20, backoff=Backoff(first=0.001, most=0.01))
ONCE = Patience(retry=0)


@pytest.fixture
async def registry() -> AsyncIterator[FakeRegistry]:
    async with serving(FakeRegistry(grant="to be asked for")) as fake:
        yield fake


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("projected-1\n")
    return path


def rotate(token_file: Path) -> None:
    token_file.write_text("projected-2")


async def test_grant_is_asked_for_once_and_shown_with_every_call(
    registry: FakeRegistry, token_file: Path
) -> None:
    digest = registry.add(b"abc")
    auth = GrantSource(token_file, "copy-1")
    async with RegistryClient(registry.url, auth=auth, patience=ONCE) as client:
        await asyncio.gather(*(client.head_blob(REPO, digest) for _ in range(5)))
    exchanges = [shown for path, shown in registry.seen if path == "POST /token"]
    assert exchanges == ["Bearer projected-1"]
    assert {shown for path, shown in registry.seen if path != "POST /token"} == {"Bearer grant-1"}


async def test_grant_is_renewed_before_it_expires_with_the_token_as_it_is_then(
    registry: FakeRegistry, token_file: Path
) -> None:
    digest = registry.add(b"abc")
    clock = ManualClock()
    auth = GrantSource(token_file, "copy-1", clock=clock)
    async with RegistryClient(registry.url, auth=auth, patience=ONCE) as client:
        await client.head_blob(REPO, digest)
        await clock.advance(0.7 * registry.grant_seconds)
        await client.head_blob(REPO, digest)
        assert registry.grants_given == 1
        rotate(token_file)
        await clock.advance(0.1 * registry.grant_seconds)
        await client.head_blob(REPO, digest)
    assert registry.grants_given == 2
    assert ("POST /token", "Bearer projected-2") in registry.seen


async def test_refused_grant_is_renewed_once(registry: FakeRegistry, token_file: Path) -> None:
    digest = registry.add(b"abc")
    auth = GrantSource(token_file, "copy-1")
    async with RegistryClient(registry.url, auth=auth, patience=ONCE) as client:
        await client.head_blob(REPO, digest)
        registry.grant = "revoked meanwhile"
        assert await client.head_blob(REPO, digest) == 3
        assert registry.grants_given == 2
        registry.fail("HEAD", "/blobs/", 401)
        registry.fail("HEAD", "/blobs/", 401)
        with pytest.raises(NotAuthorised):
            await client.head_blob(REPO, digest)


async def test_refused_grant_in_the_middle_of_an_upload_costs_nothing(
    registry: FakeRegistry, token_file: Path
) -> None:
    data = b"x" * 100_000

    async def pieces(at: int) -> AsyncIterator[bytes]:
        yield data[at:]

    auth = GrantSource(token_file, "publish-1")
    async with RegistryClient(registry.url, auth=auth, patience=QUICK) as client:
        session = await client.open_upload(REPO, "key", len(data))
        registry.grant = "revoked meanwhile"
        assert await session.send_from(pieces, length=len(data)) == len(data)
        await session.close(registry.add(data))
    assert registry.received == len(data)


async def test_reading_survives_a_refused_grant_between_ranges(
    registry: FakeRegistry, token_file: Path
) -> None:
    digest = registry.add(bytes(100_000))
    auth = GrantSource(token_file, "copy-1")
    async with RegistryClient(registry.url, auth=auth, patience=QUICK) as client:
        read = client.read_blob_ranges(REPO, digest, 0, 100_000, readers=2, range_bytes=10_000)
        got = len(await anext(read))
        registry.grant = "revoked meanwhile"
        async for piece in read:
            got += len(piece)
    assert got == 100_000


async def test_refusal_at_the_token_desk_is_final_and_names_the_reason(
    registry: FakeRegistry, token_file: Path
) -> None:
    registry.fail("POST", "/token", 403)
    auth = GrantSource(token_file, "copy-1")
    async with RegistryClient(registry.url, auth=auth, patience=QUICK) as client:
        with pytest.raises(Denied, match="on purpose"):
            await client.head_blob(REPO, "sha256:" + "1" * 64)
    assert len(registry.seen) == 1


async def test_busy_token_desk_is_asked_again(registry: FakeRegistry, token_file: Path) -> None:
    digest = registry.add(b"abc")
    registry.fail("POST", "/token", 503)
    auth = GrantSource(token_file, "copy-1")
    async with RegistryClient(registry.url, auth=auth, patience=QUICK) as client:
        assert await client.head_blob(REPO, digest) == 3


async def test_token_file_that_is_not_there_yet_is_waited_for(registry: FakeRegistry, tmp_path: Path) -> None:
    digest = registry.add(b"abc")
    path = tmp_path / "token"
    auth = GrantSource(path, "copy-1")
    async with RegistryClient(registry.url, auth=auth, patience=QUICK) as client:
        asking = asyncio.create_task(client.head_blob(REPO, digest))
        await asyncio.sleep(0)
        path.write_text("projected-1")
        assert await asking == 3
    path.write_bytes(b"\xff" * 10)
    async with RegistryClient(registry.url, auth=GrantSource(path, "copy-1"), patience=ONCE) as client:
        with pytest.raises(TokenFileUnreadable):
            await client.head_blob(REPO, digest)


async def test_transfer_is_told_with_the_grant(registry: FakeRegistry, token_file: Path) -> None:
    async with RegistryClient(registry.url, auth=GrantSource(token_file, "copy-1"), patience=ONCE) as client:
        first = await client.transfer()
        assert first is not None
        assert first.repository == REPO
        assert await client.with_auth(GrantSource(token_file)).transfer() is None
    assert registry.grants_given == 2


async def test_grants_are_never_shown_to_another_host(registry: FakeRegistry, token_file: Path) -> None:
    async with serving(FakeRegistry()) as other:
        digest = other.add(b"abc")

        async def elsewhere(request: web.Request) -> web.StreamResponse:
            return web.Response(status=307, headers={"Location": other.url + request.path})

        registry.handle("GET", "/blobs/", elsewhere)
        auth = GrantSource(token_file, "copy-1")
        async with RegistryClient(registry.url, auth=auth, patience=ONCE) as client:
            got = [piece async for piece in client.read_blob(REPO, digest)]
        assert b"".join(got) == b"abc"
        assert [shown for _, shown in other.seen] == [None]


async def test_upload_location_on_another_host_gets_no_grant(
    registry: FakeRegistry, token_file: Path
) -> None:
    async with serving(FakeRegistry()) as other:

        async def elsewhere(request: web.Request) -> web.StreamResponse:
            return web.Response(
                status=202, headers={"Location": f"{other.url}/v2/x/blobs/uploads/s?attempt=1"}
            )

        registry.handle("POST", "/blobs/uploads/", elsewhere)
        auth = GrantSource(token_file, "publish-1")
        async with RegistryClient(registry.url, auth=auth, patience=ONCE) as client:
            session = await client.open_upload(REPO, "key")
            await session.cancel()
        assert [shown for _, shown in other.seen] == [None]


@pytest.mark.parametrize("location", ["", "ftp://host/x", "javascript:x"])
async def test_redirects_to_nowhere_are_refused(registry: FakeRegistry, location: str) -> None:
    registry.grant = None

    async def nowhere(request: web.Request) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": location} if location else {})

    registry.handle("GET", "/manifests/", nowhere)
    async with RegistryClient(registry.url, patience=ONCE) as client:
        with pytest.raises(ProtocolViolation):
            await client.get_manifest(REPO, "published")


async def test_redirects_in_circles_end(registry: FakeRegistry) -> None:
    registry.grant = None

    async def around(request: web.Request) -> web.StreamResponse:
        count = int(request.query.get("n", "0")) + 1
        return web.Response(status=307, headers={"Location": f"{request.path}?n={count}"})

    for _ in range(10):
        registry.handle("GET", "/manifests/", around)
    async with RegistryClient(registry.url, patience=ONCE) as client:
        with pytest.raises(ProtocolViolation, match="redirected more than"):
            await client.get_manifest(REPO, "published")


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


def server_side(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


async def test_tls_with_the_right_authority(authority: trustme.CA) -> None:
    async with serving(FakeRegistry(), server_side(authority)) as registry:
        digest = registry.add(b"abc")
        trust = ssl.create_default_context()
        authority.configure_trust(trust)
        async with RegistryClient(registry.url, tls=trust, patience=ONCE) as client:
            assert await client.head_blob(REPO, digest) == 3


async def test_tls_of_another_authority_is_refused_before_the_grant(
    authority: trustme.CA, token_file: Path
) -> None:
    async with serving(FakeRegistry(), server_side(authority)) as registry:
        trust = ssl.create_default_context()
        trustme.CA().configure_trust(trust)
        auth = GrantSource(token_file, "copy-1")
        async with RegistryClient(registry.url, tls=trust, auth=auth, patience=ONCE) as client:
            with pytest.raises(RegistryUnavailable, match="certificate"):
                await client.head_blob(REPO, "sha256:" + "1" * 64)
        assert registry.seen == []


async def test_redirect_from_tls_to_plain_http_is_refused(
    authority: trustme.CA, registry: FakeRegistry
) -> None:
    async with serving(FakeRegistry(), server_side(authority)) as secure:
        trust = ssl.create_default_context()
        authority.configure_trust(trust)

        async def plain(request: web.Request) -> web.StreamResponse:
            return web.Response(status=307, headers={"Location": registry.url + request.path})

        secure.handle("GET", "/manifests/", plain)
        async with RegistryClient(secure.url, tls=trust, patience=ONCE) as client:
            with pytest.raises(ProtocolViolation, match="plain HTTP"):
                await client.get_manifest(REPO, "published")
    assert registry.seen == []


@pytest.mark.parametrize("url", ["", "dmcr:5000", "ftp://x", "https://x/prefix", "https://x/v2/"])
def test_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="address of a registry"):
        RegistryClient(url)
