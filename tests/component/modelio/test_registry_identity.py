"""Grants, redirects and TLS: what the client shows to whom, and what a real registry makes of it."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
import trustme

from modelio.registry import (
    Denied,
    GrantSource,
    NotAuthorised,
    Patience,
    ProtocolViolation,
    RegistryClient,
    RegistryUnavailable,
    TokenFileUnreadable,
    TransferSpec,
)
from opskit.clock import ManualClock
from opskit.retry import Backoff
from tests.kit.accounts import Accounts
from tests.kit.controlplane import fresh_namespace
from tests.kit.dmcr import Dmcr, digest_of, with_grants
from tests.kit.httpproxy import HttpProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

pytestmark = pytest.mark.asyncio(loop_scope="session")

REPO = "models/team/identity"
TRANSFER = "copy-1"
QUICK = Patience(retry=20, backoff=Backoff(first=0.001, most=0.01))
ONCE = Patience(retry=0)
GRANT_SECONDS = 600
DATA = b"abc" * 30_000
DIGEST = digest_of(DATA)
UNKNOWN = "sha256:" + "1" * 64


@pytest.fixture(scope="module")
def accounts(control_plane: Path) -> Iterator[Accounts]:
    with fresh_namespace(control_plane) as namespace, closing(Accounts(control_plane, namespace)) as made:
        made.account("catalogue")
        made.account("job")
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded(
    control_plane: Path, accounts: Accounts, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Dmcr]:
    """Return a registry with grants that holds one blob, and allows one transfer to read and write."""
    folder = tmp_path_factory.mktemp("guarded")
    catalogue, job = (f"{accounts.namespace}/{name}" for name in ("catalogue", "job"))
    settings = with_grants(control_plane, folder, catalogue)
    token = folder / "token"
    token.write_text(accounts.token(catalogue))
    async with (
        Dmcr(f"file://{folder}/store", folder / "log", **settings) as dmcr,
        RegistryClient(dmcr.url, auth=GrantSource(token), patience=ONCE) as client,
    ):
        spec = TransferSpec(
            service_account=job, repository=REPO, purpose="publication", actions=("pull", "push")
        )
        await client.put_transfer(TRANSFER, spec)
        await client.push_blob(REPO, DATA)
        yield dmcr


@pytest_asyncio.fixture(loop_scope="session")
async def proxy(guarded: Dmcr) -> AsyncIterator[HttpProxy]:
    async with HttpProxy(guarded.url) as made:
        yield made


@pytest.fixture
def token(accounts: Accounts) -> str:
    return accounts.token(f"{accounts.namespace}/job")


@pytest.fixture
def token_file(token: str, tmp_path: Path) -> Path:
    path = tmp_path / "token"
    write(path, token + "\n")
    return path


@pytest_asyncio.fixture(loop_scope="session")
async def client(proxy: HttpProxy, token_file: Path) -> AsyncIterator[RegistryClient]:
    async with RegistryClient(proxy.url, auth=GrantSource(token_file, TRANSFER), patience=QUICK) as made:
        yield made


def write(path: Path, token: str) -> str:
    path.write_text(token)
    return f"Bearer {token}"


def exchanges(proxy: HttpProxy) -> list[str | None]:
    """Return the tokens that were exchanged for grants."""
    return [one.authorization for one in proxy.asked("POST", "/token")]


def grants(proxy: HttpProxy) -> list[str]:
    """Return the different grants that were shown, in order."""
    shown = [one.authorization for one in proxy.seen if "/token" not in one.path]
    return list(dict.fromkeys(one for one in shown if one is not None))


def revoke(proxy: HttpProxy) -> None:
    """Let the registry refuse the grant that was shown last."""
    proxy.make_stale(grants(proxy)[-1])


async def test_grant_is_asked_for_once_and_shown_with_every_call(
    client: RegistryClient, proxy: HttpProxy, token: str
) -> None:
    await asyncio.gather(*(client.head_blob(REPO, DIGEST) for _ in range(5)))
    assert exchanges(proxy) == [f"Bearer {token}"]
    assert len(grants(proxy)) == 1


async def test_grant_is_renewed_before_it_expires_with_the_token_as_it_is_then(
    proxy: HttpProxy, token_file: Path, accounts: Accounts
) -> None:
    clock = ManualClock()
    auth = GrantSource(token_file, TRANSFER, clock=clock)
    async with RegistryClient(proxy.url, auth=auth, patience=ONCE) as client:
        await client.head_blob(REPO, DIGEST)
        await clock.advance(0.7 * GRANT_SECONDS)
        await client.head_blob(REPO, DIGEST)
        assert len(exchanges(proxy)) == 1
        rotated = write(token_file, accounts.token(f"{accounts.namespace}/job"))
        await clock.advance(0.1 * GRANT_SECONDS)
        await client.head_blob(REPO, DIGEST)
    assert exchanges(proxy)[1:] == [rotated]
    assert len(grants(proxy)) == 2


async def test_refused_grant_is_renewed_once(client: RegistryClient, proxy: HttpProxy) -> None:
    await client.head_blob(REPO, DIGEST)
    revoke(proxy)
    assert await client.head_blob(REPO, DIGEST) == len(DATA)
    assert len(exchanges(proxy)) == 2
    proxy.fail("HEAD", "/blobs/", 401)
    proxy.fail("HEAD", "/blobs/", 401)
    with pytest.raises(NotAuthorised):
        await client.head_blob(REPO, DIGEST)


async def test_refused_grant_in_the_middle_of_an_upload_costs_nothing(
    client: RegistryClient, proxy: HttpProxy, guarded: Dmcr
) -> None:
    async def pieces(at: int) -> AsyncIterator[bytes]:
        yield DATA[at:]

    session = await client.open_upload(REPO, "key", len(DATA))
    before = await guarded.counter("d8_ai_models_dmcr_received_bytes_total")
    revoke(proxy)
    assert await session.send_from(pieces, length=len(DATA)) == len(DATA)
    await session.close(DIGEST)
    assert await guarded.counter("d8_ai_models_dmcr_received_bytes_total") - before == len(DATA)


async def test_reading_survives_a_refused_grant_between_ranges(
    client: RegistryClient, proxy: HttpProxy
) -> None:
    read = client.read_blob_ranges(REPO, DIGEST, 0, len(DATA), readers=2, range_bytes=10_000)
    got = [await anext(read)]
    revoke(proxy)
    got += [piece async for piece in read]
    assert b"".join(got) == DATA


async def test_direct_read_renews_a_refused_grant(client: RegistryClient, proxy: HttpProxy) -> None:
    memory = bytearray(len(DATA))
    async with client.direct_reads(1) as reads:
        for _ in range(2):
            await reads.into(REPO, DIGEST, 0, memoryview(memory))
            revoke(proxy)
    assert memory == DATA
    assert len(exchanges(proxy)) == 2


async def test_refusal_at_the_token_desk_is_final_and_names_the_reason(
    proxy: HttpProxy, token_file: Path
) -> None:
    auth = GrantSource(token_file, "copy-unknown")
    async with RegistryClient(proxy.url, auth=auth, patience=QUICK) as client:
        with pytest.raises(Denied, match="transfer"):
            await client.head_blob(REPO, DIGEST)
    assert len(proxy.seen) == 1


async def test_busy_token_desk_is_asked_again(client: RegistryClient, proxy: HttpProxy) -> None:
    proxy.fail("POST", "/token", 503)
    assert await client.head_blob(REPO, DIGEST) == len(DATA)


async def test_token_file_that_is_not_there_yet_is_waited_for(
    proxy: HttpProxy, token: str, tmp_path: Path
) -> None:
    path = tmp_path / "later"
    async with RegistryClient(proxy.url, auth=GrantSource(path, TRANSFER), patience=QUICK) as client:
        asking = asyncio.create_task(client.head_blob(REPO, DIGEST))
        await asyncio.sleep(0)
        write(path, token)
        assert await asking == len(DATA)
    write(path, "\u00ff" * 10)
    async with RegistryClient(proxy.url, auth=GrantSource(path, TRANSFER), patience=ONCE) as client:
        with pytest.raises(TokenFileUnreadable):
            await client.head_blob(REPO, DIGEST)


async def test_transfer_is_told_with_the_grant(client: RegistryClient, proxy: HttpProxy) -> None:
    for _ in range(2):
        told = await client.transfer()
        assert told is not None
        assert told.repository == REPO
    assert len(exchanges(proxy)) == 2


async def test_grants_are_never_shown_to_another_host(
    client: RegistryClient, proxy: HttpProxy, dmcr: Dmcr
) -> None:
    await dmcr.push_blob(REPO, DATA)
    async with HttpProxy(dmcr.url) as other:
        proxy.redirect("GET", "/blobs/", f"{other.url}/v2/{REPO}/blobs/{DIGEST}")
        assert b"".join([piece async for piece in client.read_blob(REPO, DIGEST)]) == DATA
        assert [one.authorization for one in other.seen] == [None]


async def test_upload_location_on_another_host_gets_no_grant(
    client: RegistryClient, proxy: HttpProxy, dmcr: Dmcr
) -> None:
    async with HttpProxy(dmcr.url) as other:
        location = f"{other.url}/v2/{REPO}/blobs/uploads/unknown.1"
        proxy.reply("POST", "/blobs/uploads/", 202, headers={"Location": location})
        session = await client.open_upload(REPO, "key")
        await session.cancel()
        assert [one.authorization for one in other.seen] == [None]


@pytest.mark.parametrize("location", ["", "ftp://host/x", "javascript:x"])
async def test_redirects_to_nowhere_are_refused(
    client: RegistryClient, proxy: HttpProxy, location: str
) -> None:
    proxy.redirect("GET", "/manifests/", location)
    with pytest.raises(ProtocolViolation):
        await client.get_manifest(REPO, "published")


async def test_redirects_in_circles_end(client: RegistryClient, proxy: HttpProxy) -> None:
    for count in range(10):
        proxy.redirect("GET", "/manifests/", f"/v2/{REPO}/manifests/published?n={count}")
    with pytest.raises(ProtocolViolation, match="redirected more than"):
        await client.get_manifest(REPO, "published")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest_asyncio.fixture(loop_scope="session")
async def secure(guarded: Dmcr, authority: trustme.CA) -> AsyncIterator[HttpProxy]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with HttpProxy(guarded.url, context) as made:
        yield made


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_tls_with_the_right_authority(
    secure: HttpProxy, authority: trustme.CA, token_file: Path
) -> None:
    auth = GrantSource(token_file, TRANSFER)
    async with RegistryClient(secure.url, tls=trusting(authority), auth=auth, patience=ONCE) as client:
        assert await client.head_blob(REPO, DIGEST) == len(DATA)


async def test_tls_of_another_authority_is_refused_before_the_grant(
    secure: HttpProxy, token_file: Path
) -> None:
    auth = GrantSource(token_file, TRANSFER)
    async with RegistryClient(secure.url, tls=trusting(trustme.CA()), auth=auth, patience=ONCE) as client:
        with pytest.raises(RegistryUnavailable, match="certificate"):
            await client.head_blob(REPO, DIGEST)
    assert secure.seen == []


async def test_redirect_from_tls_to_plain_http_is_refused(
    secure: HttpProxy, proxy: HttpProxy, authority: trustme.CA
) -> None:
    secure.redirect("GET", "/manifests/", f"{proxy.url}/v2/{REPO}/manifests/published")
    async with RegistryClient(secure.url, tls=trusting(authority), patience=ONCE) as client:
        with pytest.raises(ProtocolViolation, match="plain HTTP"):
            await client.get_manifest(REPO, "published")
    assert proxy.seen == []
