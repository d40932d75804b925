"""The path with every identity real: grants by TokenReview, the worker's own program in the Job's place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from aimodels.api.model import AnyModel, Model
from aimodels.api.reasons import Phase, TransferStage
from aimodels.catalog import names
from aimodels.catalog.names import Key
from kubekit.resources import Secret
from modelio.registry import GrantSource, Patience, RegistryClient
from tests.kit import upload
from tests.kit.accounts import Accounts
from tests.kit.catalog import running_catalog
from tests.kit.controlplane import fresh_namespace
from tests.kit.dmcr import Dmcr, with_grants
from tests.kit.models import gguf_bytes
from tests.kit.publication import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.kit.catalog import Cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

ONCE = Patience(retry=0)
GATEWAY_POD = "ai-models-upload-gateway-7d9f-x2x2x"


@pytest.fixture(scope="module")
def namespace(control_plane: Path) -> Iterator[str]:
    with fresh_namespace(control_plane) as name:
        yield name


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("whole-path")


@pytest.fixture(scope="module")
def accounts(control_plane: Path, namespace: str) -> Iterator[Accounts]:
    made = Accounts(control_plane, namespace)
    for name in ("ai-models-controller", "ai-models-publication", "ai-models-upload-gateway"):
        made.account(name)
    made.pod(GATEWAY_POD, f"{namespace}/ai-models-upload-gateway")
    yield made
    made.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def dmcr(folder: Path, control_plane: Path, accounts: Accounts) -> AsyncIterator[Dmcr]:
    settings = with_grants(control_plane, folder, f"{accounts.namespace}/ai-models-controller")
    async with Dmcr(f"file://{folder}/store", folder / "dmcr.log", **settings) as dmcr:
        yield dmcr


class World:
    """A cluster, a registry with grants, and the identities of gateway and worker."""

    def __init__(self, cluster: Cluster, dmcr: Dmcr, accounts: Accounts, folder: Path) -> None:
        self.cluster = cluster
        self.dmcr = dmcr
        self._accounts = accounts
        self._folder = folder

    async def waiting(self) -> AnyModel:
        model = await self.cluster.make(Model, {"upload": {}})
        return await self.cluster.phase(model, Phase.WAIT_FOR_UPLOAD)

    async def gateway(self, model: AnyModel) -> tuple[RegistryClient, str]:
        """Return the gateway's client for the transfer that the Secret names, and that transfer."""
        secret = await self.cluster.client.get(
            Secret, names.upload_secret(Key.of(model)), self.cluster.namespace
        )
        transfer = secret.data["url"].decode().rpartition("/")[2]
        token = self._token("ai-models-upload-gateway", GATEWAY_POD)
        return RegistryClient(self.dmcr.url, auth=GrantSource(token, transfer), patience=ONCE), transfer

    async def uploaded(self, data: bytes) -> AnyModel:
        """Return a model whose upload is complete and whose publication has begun."""
        model = await self.waiting()
        gateway, _ = await self.gateway(model)
        async with gateway:
            await upload.received(gateway, names.repository(Key.of(model)), data)
        return await self.cluster.phase(model, Phase.PUBLISHING)

    async def worker(self, model: AnyModel, attempt: int = 1) -> Worker:
        """Return the attempt's program with the environment and the identity of the Job's Pod."""
        job = await self.cluster.job(model, attempt)
        pod = await self.cluster.pod(job)
        token = self._token("ai-models-publication", pod.metadata.name)
        given = {one["name"]: one["value"] for one in job.spec.template["spec"]["containers"][0]["env"]}
        given |= {"PUBLICATION_TOKEN_FILE": str(token), "PUBLICATION_CA_FILE": ""}
        del given["PUBLICATION_DMCR_URL"]
        folder = self._folder / model.metadata.name
        folder.mkdir(exist_ok=True)
        return Worker(self.dmcr.url, given.pop("PUBLICATION_REPOSITORY"), folder, attempt, **given)

    def _token(self, account: str, pod: str) -> Path:
        path = self._folder / f"token-{pod}"
        path.write_text(self._accounts.token(f"{self.cluster.namespace}/{account}", pod))
        return path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(
    control_plane: Path, namespace: str, dmcr: Dmcr, accounts: Accounts, folder: Path
) -> AsyncIterator[World]:
    token = folder / "catalogue-token"
    token.write_text(accounts.token(f"{namespace}/ai-models-controller"))
    async with running_catalog(control_plane, namespace, dmcr.url, dmcr_token_file=token) as cluster:
        yield World(cluster, dmcr, accounts, folder)


async def test_a_real_file_becomes_a_ready_model(world: World) -> None:
    data = gguf_bytes(size=24 << 20)
    model = await world.uploaded(data)
    worker = await world.worker(model)

    assert await worker.run() == 0, worker.log.read_text()

    model = await world.cluster.phase(model, Phase.READY)
    assert model.status
    assert model.status.resolved
    assert model.status.resolved.format == "GGUF"
    assert model.status.resolved.architecture == "llama"
    assert model.status.resolved.facts
    assert model.status.resolved.facts.layers == 2
    assert model.status.artifact
    assert model.status.artifact.size_bytes > len(data)


async def test_a_killed_worker_is_followed_by_one_that_ends_the_work(world: World) -> None:
    model = await world.uploaded(gguf_bytes(size=8 << 20))
    first = await world.worker(model)
    await first.start()
    await first.kill()
    await world.cluster.end_pod(await world.cluster.job(model), 137)

    second = await world.worker(model, attempt=2)
    assert await second.run() == 0, second.log.read_text()

    await world.cluster.phase(model, Phase.READY)


async def test_what_is_no_model_fails_with_the_workers_words(world: World) -> None:
    model = await world.uploaded(b"GGUF" + bytes(20))
    worker = await world.worker(model)

    code = await worker.run()
    await world.cluster.end_pod(await world.cluster.job(model), code, worker.termination.read_text())

    model = await world.cluster.phase(model, Phase.FAILED)
    assert model.status
    assert worker.verdict()["message"] in model.status.conditions[-1].message


async def test_an_upload_on_its_way_is_told_in_the_status(world: World) -> None:
    model = await world.waiting()
    gateway, transfer = await world.gateway(model)
    data = bytes(32 << 20)

    async def part() -> AsyncIterator[bytes]:
        yield data[: 17 << 20]

    async with gateway:
        session = await gateway.open_upload(names.repository(Key.of(model)), transfer, len(data))
        await session.send(part())
        model = await world.cluster.until(
            model, lambda one: one.status is not None and one.status.transfer is not None
        )

    assert model.status
    assert model.status.transfer
    assert model.status.transfer.stage == TransferStage.UPLOADING
    assert model.status.transfer.bytes
    assert model.status.transfer.last_progress_time
