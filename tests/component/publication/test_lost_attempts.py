"""An attempt whose worker is lost: what it stored is the next attempt's, and goes with its model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from aimodels.api.reasons import Phase
from aimodels.dmcr.layout import Session
from aimodels.dmcr.swaps import Swaps
from objectstore.filesystem import FileSystemStore
from opskit.clock import SystemClock
from tests.kit import wholepath
from tests.kit.commandline import Aictl
from tests.kit.controlplane import fresh_namespace
from tests.kit.gate import Gate
from tests.kit.gatewayworld import RECEIVED
from tests.kit.models import checkpoint, tar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from aimodels.api.model import AnyModel
    from tests.kit.wholepath import WholePath

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

MIB = 1 << 20
SHARD = 80 * MIB
#: parts of 8 MiB, two of them on their way, and what was in the sockets
NOT_JOURNALED = 24 * MIB


@pytest.fixture(scope="module")
def namespace(control_plane: Path) -> Iterator[str]:
    with fresh_namespace(control_plane) as name:
        yield name


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lost")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def path(control_plane: Path, namespace: str, folder: Path) -> AsyncIterator[WholePath]:
    async with wholepath.running(control_plane, namespace, folder) as made:
        yield made


@pytest.fixture(scope="module")
def archive(folder: Path) -> Path:
    """Return an archive of one shard of many parts."""
    file = folder / "big.tar"
    file.write_bytes(tar(checkpoint(shards=1, size=SHARD)))
    return file


async def lost(path: WholePath, model: AnyModel) -> None:
    """Run the first attempt's worker until it has read most of the shard, then end it without a word."""
    async with Gate(path.dmcr.port, 60 * MIB) as gate:
        worker = await path.worker(model, url=gate.url)
        await worker.start()
        await gate.reached.wait()
        await worker.kill()
    await path.cluster.end_pod(await path.cluster.job(model), 137)


async def states(folder: Path) -> list[str]:
    """Return the states of the uploads in which publications have stored parts."""
    store = FileSystemStore(folder / "store")
    keys = [key async for key in store.list("uploads/") if key.endswith(".json")]
    swaps = Swaps(store, SystemClock())
    held = [await swaps.load(key, Session) for key in keys]
    sessions = [one.value for one in held if one is not None]
    return [one.state for one in sessions if one.parts and (one.transfer or "").startswith("publish-")]


async def test_the_next_attempt_sends_only_what_the_lost_one_had_not_journaled(
    path: WholePath, control_plane: Path, namespace: str, archive: Path
) -> None:
    uploading = await Aictl.start(
        control_plane, "upload", "resumed", str(archive), "-n", namespace, "--create"
    )
    model = await path.model("resumed", Phase.PUBLISHING)
    before = await path.dmcr.counter(RECEIVED)
    await lost(path, model)
    await path.published(model, attempt=2)
    ended = await uploading.end()
    assert ended.code == 0, ended.err
    assert SHARD <= await path.dmcr.counter(RECEIVED) - before <= SHARD + NOT_JOURNALED


async def test_what_a_lost_attempt_stored_goes_with_its_model(
    path: WholePath, control_plane: Path, namespace: str, archive: Path, folder: Path
) -> None:
    uploading = await Aictl.start(
        control_plane, "upload", "dropped", str(archive), "-n", namespace, "--create"
    )
    model = await path.model("dropped", Phase.PUBLISHING)
    await lost(path, model)
    await path.cluster.job(model, attempt=2)
    assert "open" in await states(folder), "the next attempt has something to take over"
    await path.cluster.delete(model)
    await path.cluster.gone(type(model), "dropped", namespace)
    assert set(await states(folder)) <= {"done", "void"}
    await uploading.end()
