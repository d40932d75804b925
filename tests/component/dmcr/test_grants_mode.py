"""DMCR with grants, as a process, and an API server that reviews tokens: who may do what, and attacks."""

from __future__ import annotations

import asyncio
import hashlib
import io
import itertools
import os
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import jwt
import msgspec
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from aimodels.dmcr.grants import key_id
from modelio.registry import (
    Denied,
    GrantSource,
    NotAuthorised,
    NotFound,
    Patience,
    Refused,
    RegistryClient,
    SessionLost,
    TransferProgress,
    TransferSpec,
)
from modelkit import modelpack
from modelkit.facts import ModelFacts
from tests.kit.accounts import Accounts
from tests.kit.controlplane import fresh_namespace
from tests.kit.dmcr import Dmcr

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

JOB_POD = "ai-model-publish-u1-g1-a1-x7k2p"
ONCE = Patience(retry=0)


#: one registry for all tests: each has repositories and transfers of its own
pytestmark = pytest.mark.asyncio(loop_scope="module")


class Registry:
    """A registry with grants, its catalogue, and a Job's Pod."""

    def __init__(self, dmcr: Dmcr, accounts: Accounts, folder: Path, key: Ed25519PrivateKey) -> None:
        self.dmcr = dmcr
        self.accounts = accounts
        self.key = key
        self.tests = itertools.count(1)
        self._folder = folder
        self._clients: list[RegistryClient] = []
        self.job = accounts.account("publication")
        accounts.pod(JOB_POD, self.job)
        self.catalogue_token = accounts.token(f"{accounts.namespace}/catalogue", "catalogue-0")
        self.catalogue = self.client(self.catalogue_token)

    def client(self, token: str, transfer: str | None = None) -> RegistryClient:
        path = self._folder / f"token-{len(self._clients)}"
        path.write_text(token)
        client = RegistryClient(self.dmcr.url, auth=GrantSource(path, transfer), patience=ONCE)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


class World:
    """What one test has of the registry."""

    def __init__(self, registry: Registry) -> None:
        number = next(registry.tests)
        self.registry = registry
        self.dmcr, self.accounts, self.key = registry.dmcr, registry.accounts, registry.key
        self.catalogue, self.job, self.client = registry.catalogue, registry.job, registry.client
        self.repo, self.other_repo = f"models/team/x{number}", f"models/team/y{number}"
        self.publication, self.copy = f"publish-u{number}", f"copy-u{number}"

    def job_client(self, transfer: str | None = None) -> RegistryClient:
        return self.client(self.accounts.token(self.job, JOB_POD), transfer or self.publication)

    def spec(self, **changes: Any) -> TransferSpec:
        whole = TransferSpec(
            service_account=self.job,
            pod_prefix="ai-model-publish-u1-g1-a1",
            repository=self.repo,
            purpose="publication",
            actions=("pull", "push"),
        )
        return msgspec.structs.replace(whole, **changes)

    async def progress(self) -> list[TransferProgress]:
        """Return this test's transfers, by purpose."""
        listed = await self.catalogue.list_transfers()
        mine = [each for each in listed if each.repository in {self.repo, self.other_repo}]
        return sorted(mine, key=lambda each: each.purpose)

    async def raw(self, method: str, path: str, grant: str, **kwargs: Any) -> int:
        """Send a grant as it is and return the status."""
        headers = {"Authorization": f"Bearer {grant}"} if grant else {}
        try:
            async with self.dmcr.client.request(method, path, headers=headers, **kwargs) as answer:
                await answer.read()
                return answer.status
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
            return 413  # the connection was closed while the body was being sent

    async def grant(self, token: str, transfer: str | None = None) -> str:
        asked = {"transfer": transfer} if transfer else {}
        async with self.dmcr.client.post(
            "/token", json=asked, headers={"Authorization": f"Bearer {token}"}
        ) as answer:
            assert answer.status == 200, await answer.text()
            body = await answer.json()
            return str(body["token"])

    async def catalogue_grant(self) -> str:
        return await self.grant(self.registry.catalogue_token)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def registry(control_plane: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Registry]:
    folder = tmp_path_factory.mktemp("grants")
    key = Ed25519PrivateKey.generate()
    signing = folder / "signing.pem"
    signing.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with fresh_namespace(control_plane) as namespace, Accounts(control_plane, namespace) as accounts:
        accounts.pod("catalogue-0", accounts.account("catalogue"))
        settings = {
            "DMCR_AUTH": "grants",
            "DMCR_SIGNING_KEY_FILE": str(signing),
            "DMCR_KUBERNETES_KUBECONFIG": str(control_plane),
            "DMCR_CATALOGUE_ACCOUNT": f"{namespace}/catalogue",
        }
        async with Dmcr(f"file://{folder}/store", folder / "log", **settings) as dmcr:
            made = Registry(dmcr, accounts, folder, key)
            yield made
            await made.close()


@pytest.fixture
def world(registry: Registry) -> World:
    return World(registry)


async def once(piece: bytes) -> AsyncIterator[bytes]:
    yield piece


async def push(client: RegistryClient, repository: str, body: bytes = b"weights") -> str:
    async def pieces() -> AsyncIterator[bytes]:
        yield body

    digest = "sha256:" + hashlib.sha256(body).hexdigest()
    session = await client.open_upload(repository, digest, len(body))
    await session.send(pieces(), length=len(body))
    await session.close(digest)
    return digest


async def publish(client: RegistryClient, repository: str, body: bytes = b"weights") -> tuple[str, str]:
    layer = await push(client, repository, body)
    package = modelpack.pack(
        [modelpack.Layer("model.gguf", layer, len(body))], ModelFacts(format="GGUF", family=layer[7:20])
    )
    await client.push_blob(repository, package.config)
    return await client.put_manifest(repository, "published", modelpack.MANIFEST, package.manifest), layer


async def joined(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


async def test_publication_and_copy_each_do_their_part_and_no_other(world: World) -> None:
    await world.catalogue.put_transfer(world.publication, world.spec(expected_bytes=7))
    job = world.job_client()
    manifest, layer = await publish(job, world.repo)
    with pytest.raises(Denied):
        await job.put_transfer("another", world.spec())
    with pytest.raises(Denied):
        await job.close_repository(world.repo)
    with pytest.raises(Denied):
        await job.delete_manifest(world.repo, "published")
    await world.catalogue.put_transfer(
        world.copy, world.spec(purpose="copy", actions=("pull",), digest=manifest)
    )
    reader = world.job_client(world.copy)
    assert (await reader.get_manifest(world.repo, manifest)).digest == manifest
    assert await joined(reader.read_blob(world.repo, layer)) == b"weights"
    with pytest.raises(Denied):
        await push(reader, world.repo)
    copy, publication = await world.progress()
    assert (publication.id, publication.offset, publication.expected_bytes) == (world.publication, 7, 7)
    assert publication.tags == {"published": manifest}
    assert copy.delivered_bytes >= 7
    assert copy.last_progress_time is not None


async def test_grant_with_a_digest_reads_just_that_models_bytes(world: World) -> None:
    await world.catalogue.put_transfer(world.publication, world.spec())
    job = world.job_client()
    first, first_layer = await publish(job, world.repo, b"first")
    second, second_layer = await publish(job, world.repo, b"second")
    await world.catalogue.put_transfer(
        world.copy, world.spec(purpose="copy", actions=("pull",), digest=first)
    )
    reader = world.job_client(world.copy)
    assert await joined(reader.read_blob(world.repo, first_layer)) == b"first"
    for forbidden in (reader.get_manifest(world.repo, second), reader.get_manifest(world.repo, "published")):
        with pytest.raises((Denied, NotFound)):
            await forbidden
    with pytest.raises((Denied, NotFound)):
        await joined(reader.read_blob(world.repo, second_layer))


async def test_grant_of_one_repository_opens_no_other(world: World) -> None:
    await world.catalogue.put_transfer(world.publication, world.spec())
    await world.catalogue.put_transfer(world.publication + "-2", world.spec(repository=world.other_repo))
    mine, other = world.job_client(), world.job_client(world.publication + "-2")
    secret = await push(other, world.other_repo, b"secret")
    for attempt in (
        push(mine, world.other_repo),
        joined(mine.read_blob(world.other_repo, secret)),
        mine.get_manifest(world.other_repo, "published"),
        mine.put_manifest(world.other_repo, "published", modelpack.MANIFEST, b"{}"),
        joined(mine.read_blob(world.repo, secret)),
    ):
        with pytest.raises((Denied, NotFound)):
            await attempt
    mount = f"/v2/{world.repo}/blobs/uploads/?mount={secret}&from={world.other_repo}"
    grant = await world.grant(world.accounts.token(world.job, JOB_POD), world.publication)
    assert await world.raw("POST", mount, grant) != 201
    with pytest.raises(NotFound):
        await joined(mine.read_blob(world.repo, secret))


async def test_tokens_that_are_not_for_this_transfer_get_no_grant(world: World) -> None:
    await world.catalogue.put_transfer(world.publication, world.spec())
    accounts = world.accounts
    stranger = accounts.account("stranger")
    accounts.pod("ai-model-publish-u1-g1-a1-evil0", stranger)
    accounts.pod("ai-model-publish-u1-g1-a10-x", world.job)
    refused = {
        "another audience": (accounts.token(world.job, JOB_POD, audience="api"), NotAuthorised),
        "another account": (accounts.token(stranger, "ai-model-publish-u1-g1-a1-evil0"), Denied),
        "another attempt's Pod": (accounts.token(world.job, "ai-model-publish-u1-g1-a10-x"), Denied),
        "no Pod": (accounts.token(world.job), Denied),
        "no token": ("nonsense", NotAuthorised),
        "a grant instead of a token": (
            await world.grant(accounts.token(world.job, JOB_POD), world.publication),
            NotAuthorised,
        ),
    }
    for token, kind in refused.values():
        with pytest.raises(kind):
            await world.client(token, world.publication).get_manifest(world.repo, "published")
    with pytest.raises(Denied):
        await world.client(accounts.token(world.job, JOB_POD)).list_transfers()


async def test_token_of_a_pod_that_is_gone_gets_no_grant(world: World) -> None:
    await world.catalogue.put_transfer(world.publication, world.spec())
    pod = "ai-model-publish-u1-g1-a1-gone0"
    world.accounts.pod(pod, world.job)
    token = world.accounts.token(world.job, pod)
    world.accounts.delete_pod(pod)
    with pytest.raises(NotAuthorised):
        await world.client(token, world.publication).get_manifest(world.repo, "published")


def forged(world: World, key: Any, algorithm: str, **changes: Any) -> str:
    now = int(time.time())
    claims = {
        "sub": "x",
        "jti": "1",
        "iat": now,
        "exp": now + 600,
        "aud": "dmcr",
        "iss": "dmcr",
        "catalogue": True,
    } | changes
    return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": key_id(world.key)})


async def test_forged_and_expired_grants_are_refused_at_every_door(world: World) -> None:
    now = int(time.time())
    assert await world.raw("GET", "/api/transfers/v1", forged(world, world.key, "EdDSA")) == 200
    grants = {
        "none": "",
        "alg none": forged(world, None, "none"),
        "HS256": forged(world, "k" * 32, "HS256"),
        "another key": forged(world, Ed25519PrivateKey.generate(), "EdDSA"),
        "expired": forged(world, world.key, "EdDSA", iat=now - 700, exp=now - 100),
        "another audience": forged(world, world.key, "EdDSA", aud="api"),
        "too long a life": forged(world, world.key, "EdDSA", exp=now + 86_400),
    }
    doors = [
        ("GET", "/v2/"),
        ("GET", f"/v2/{world.repo}/manifests/published"),
        ("POST", f"/v2/{world.repo}/blobs/uploads/"),
        ("DELETE", f"/v2/{world.repo}/manifests/published"),
        ("GET", "/api/transfers/v1"),
        ("PUT", "/api/transfers/v1/x"),
        ("DELETE", "/api/transfers/v1/x"),
        ("DELETE", f"/api/repositories/v1/{world.repo}"),
    ]
    accepted = [
        (name, door)
        for name, grant in grants.items()
        for door in doors
        if await world.raw(door[0], door[1], grant) != 401
    ]
    assert accepted == []


@pytest.mark.parametrize("size", [20_000, 200_000])
async def test_oversized_credentials_and_bodies_are_refused(world: World, size: int) -> None:
    assert await world.raw("GET", "/v2/", "x" * size) in {400, 401, 431}
    catalogue = await world.catalogue_grant()
    body = b"{" + b" " * size * 10
    assert await world.raw("PUT", "/api/transfers/v1/x", catalogue, data=io.BytesIO(body)) in {400, 413}
    assert await world.raw("POST", "/token", "x.y.z", data=io.BytesIO(body)) in {400, 401, 413}


async def test_revocation_ends_grants_and_uploads_within_seconds(world: World) -> None:
    await world.catalogue.put_transfer(world.publication, world.spec())
    job = world.job_client()
    session = await job.open_upload(world.repo, "key", 100)
    await world.catalogue.revoke_transfer(world.publication)
    with pytest.raises((Denied, NotFound, SessionLost)):
        await session.close("sha256:" + "0" * 64)
    with pytest.raises(Denied):
        await job.open_upload(world.repo, "key", 100)
    with pytest.raises(Denied):
        await world.job_client().open_upload(world.repo, "key", 100)
    with pytest.raises(SessionLost, match="revoked"):
        await world.catalogue.put_transfer(world.publication, world.spec())
    assert await world.progress() == []
    await world.catalogue.revoke_transfer(world.publication)
    await world.catalogue.revoke_transfer("never-was")


async def test_revocation_may_leave_what_is_stored_to_the_next_transfer(world: World) -> None:
    await world.catalogue.put_transfer(world.publication, world.spec())
    first = await world.job_client().open_upload(world.repo, "key", 100)
    await first.send(once(bytes(40)), length=40)
    await world.catalogue.revoke_transfer(world.publication, keep_sessions=True)
    with pytest.raises((Denied, SessionLost)):
        await first.send(once(bytes(60)), length=60)
    second, third = f"{world.publication}-a2", f"{world.publication}-a3"
    await world.catalogue.put_transfer(second, world.spec())
    job = world.job_client(second)
    assert (await job.open_upload(world.repo, "key", 100)).offset == 40
    assert [each.offset for each in await world.progress()] == [40]
    await world.catalogue.end_sessions(world.repo)
    assert (await job.open_upload(world.repo, "key", 100)).offset == 40, "its transfer is on"
    await world.catalogue.revoke_transfer(second, keep_sessions=True)
    await world.catalogue.end_sessions(world.repo)
    await world.catalogue.put_transfer(third, world.spec())
    assert (await world.job_client(third).open_upload(world.repo, "key", 100)).offset == 0
    assert (
        await world.raw("DELETE", f"/api/transfers/v1/{third}?sessions=some", await world.catalogue_grant())
        == 400
    )
    assert (
        await world.raw(
            "DELETE",
            f"/api/sessions/v1/{world.repo}",
            await world.grant(world.accounts.token(world.job, JOB_POD), third),
        )
        == 403
    )


async def test_second_replica_honours_a_revocation_within_seconds(world: World, tmp_path: Path) -> None:
    await world.catalogue.put_transfer(world.publication, world.spec())
    settings = {name: value for name, value in world.dmcr._environ.items() if name.startswith("DMCR_")}
    store = settings.pop("DMCR_STORE")
    settings.pop("DMCR_LISTEN")
    grant = await world.grant(world.accounts.token(world.job, JOB_POD), world.publication)
    async with Dmcr(store, tmp_path / "second.log", **settings) as second:

        async def status() -> int:
            headers = {"Authorization": f"Bearer {grant}"}
            async with second.client.get(f"/v2/{world.repo}/manifests/published", headers=headers) as answer:
                return answer.status

        assert await status() == 404
        await world.catalogue.revoke_transfer(world.publication)
        async with asyncio.timeout(30):
            while await status() != 403:  # noqa: ASYNC110 - another process is waited for
                await asyncio.sleep(0.1)


async def test_foreign_bucket_takes_no_orders(world: World, tmp_path: Path) -> None:
    await world.catalogue.put_transfer(world.publication, world.spec())
    settings = {name: value for name, value in world.dmcr._environ.items() if name.startswith("DMCR_")}
    store = settings.pop("DMCR_STORE")
    settings.pop("DMCR_LISTEN")
    settings["DMCR_OWNER"] = "another"
    grant = await world.catalogue_grant()
    async with Dmcr(store, tmp_path / "second.log", **settings) as second:
        headers = {"Authorization": f"Bearer {grant}"}
        for method, path in (
            ("DELETE", "/api/transfers/v1/publish-u1"),
            ("DELETE", f"/api/repositories/v1/{world.repo}"),
            ("PUT", "/api/transfers/v1/publish-u2"),
        ):
            async with second.client.request(method, path, headers=headers) as answer:
                assert answer.status == 403
        async with second.client.get("/api/transfers/v1", headers=headers) as answer:
            assert answer.status == 200


async def test_deleted_and_recreated_name_is_out_of_reach_of_old_grants(world: World) -> None:
    await world.catalogue.put_transfer(world.publication, world.spec())
    old = world.job_client()
    await publish(old, world.repo)
    await world.catalogue.close_repository(world.repo)
    with pytest.raises(NotFound):
        await old.get_manifest(world.repo, "published")
    await world.catalogue.put_transfer(world.publication + "-2", world.spec())
    new = world.job_client(world.publication + "-2")
    manifest, layer = await publish(new, world.repo, b"new owner")
    for attempt in (
        old.get_manifest(world.repo, "published"),
        joined(old.read_blob(world.repo, layer)),
        push(old, world.repo),
    ):
        with pytest.raises((Denied, NotFound)):
            await attempt
    assert (await new.get_manifest(world.repo, "published")).digest == manifest


async def test_gateway_learns_the_hash_of_the_users_token(world: World) -> None:
    secret = hashlib.sha256(b"the user's token").hexdigest()
    await world.catalogue.put_transfer(world.publication, world.spec(purpose="upload", token_hash=secret))
    spec = await world.job_client(world.publication).transfer()
    assert spec is not None
    assert spec.token_hash == secret


async def test_metering_survives_a_kill_approximately_and_a_stop_exactly(world: World) -> None:
    body = os.urandom(3_000_000)
    await world.catalogue.put_transfer(world.publication, world.spec(expected_bytes=len(body)))
    _, layer = await publish(world.job_client(), world.repo, body)
    await joined(world.job_client().read_blob(world.repo, layer))
    await joined(world.job_client().read_blob(world.repo, layer))
    await world.dmcr.stop()
    await world.dmcr.start()
    (progress,) = await world.progress()
    assert progress.offset == len(body)
    assert len(body) <= progress.received_bytes < 1.01 * len(body)
    assert len(body) <= progress.delivered_bytes < 1.01 * len(body)
    await world.dmcr.kill()
    await world.dmcr.start()
    assert await world.progress() == [progress]


async def test_unknown_fields_and_ids_are_refused_with_the_field(world: World) -> None:
    grant = await world.catalogue_grant()
    for body in (b"", b"[]", b'{"serviceAccount": "a/b"}', b'{"own": true}', b"\xff"):
        assert await world.raw("PUT", "/api/transfers/v1/x", grant, data=body) == 400
    with pytest.raises(Refused, match="repository"):
        await world.catalogue.put_transfer("x", world.spec(repository="Bad"))
    assert await world.raw("GET", "/api/transfers/v1/..%2Fowner", grant) == 404
