"""A user's file becomes a Ready model: aictl, catalogue, registry, gateway and worker, all as they are."""

from __future__ import annotations

import json
import signal
import ssl
from typing import TYPE_CHECKING

import aiohttp
import pytest
import pytest_asyncio

from aimodels.api.model import Model
from aimodels.api.reasons import Phase, TransferStage
from aimodels.catalog import names
from aimodels.catalog.names import Key
from kubekit.resources import Secret
from tests.kit import wholepath
from tests.kit.commandline import Aictl, aictl
from tests.kit.controlplane import fresh_namespace
from tests.kit.gatewayworld import RECEIVED
from tests.kit.models import gguf_bytes
from tests.kit.modelsapi import MODEL_RIGHTS, ROLE_BINDING, user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.kit.wholepath import WholePath

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

MIB = 1 << 20


@pytest.fixture(scope="module")
def namespace(control_plane: Path) -> Iterator[str]:
    with fresh_namespace(control_plane) as name:
        yield name


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(
    control_plane: Path, namespace: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[WholePath]:
    async with wholepath.running(control_plane, namespace, tmp_path_factory.mktemp("path")) as made:
        yield made


@pytest.fixture
def path(running: WholePath) -> WholePath:
    running.line.left = float("inf")
    return running


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model of more bytes than one part of the store has."""
    made = tmp_path_factory.mktemp("file") / "tiny.gguf"
    made.write_bytes(gguf_bytes(size=24 * MIB))
    return made


async def test_an_upload_from_create_to_ready(
    path: WholePath, control_plane: Path, namespace: str, file: Path, tmp_path: Path
) -> None:
    command = ("upload", "gemma", str(file), "-n", namespace, "--create")
    uploading = await Aictl.start(control_plane, *command)
    await path.published(await path.model("gemma", Phase.PUBLISHING))
    ended = await uploading.end()
    assert ended.code == 0, ended.err
    assert f"Model {namespace}/gemma created" in ended.err
    assert "GGUF, llama, 25.2 M parameters, F16, 2 K context, 24.0 MiB" in ended.err
    assert ended.out.startswith("Ready in ")
    assert f"kubectl -n {namespace} annotate deploy/app ai.deckhouse.io/model=gemma" in ended.out

    again = await aictl(control_plane, *command, "--json")
    assert again.code == 0
    document = json.loads(again.out)
    assert (document["phase"], document["resolved"]["architecture"]) == (Phase.READY, "llama")

    other = tmp_path / "other.gguf"
    other.write_bytes(gguf_bytes())
    refused = await aictl(control_plane, "upload", "gemma", str(other), "-n", namespace)
    assert refused.code == 3
    assert "was made of another file" in refused.err


async def test_an_interrupted_upload_is_told_in_the_status_and_goes_on_with_the_same_command(
    path: WholePath, control_plane: Path, namespace: str, file: Path
) -> None:
    model = await path.waiting("interrupted")
    command = ("upload", "interrupted", str(file), "-n", namespace)
    path.line.left = 18 * MIB
    uploading = await Aictl.start(control_plane, *command)
    await uploading.says("trying again")
    model = await path.cluster.until(
        model, lambda one: one.status is not None and one.status.transfer is not None
    )
    assert model.status
    assert model.status.transfer
    assert model.status.transfer.stage == TransferStage.UPLOADING
    assert model.status.transfer.bytes
    uploading.send_signal(signal.SIGINT)
    interrupted = await uploading.end()
    assert interrupted.code == 130
    assert "the same command goes on where this one stopped" in interrupted.err

    path.line.left = float("inf")
    received = await path.dmcr.counter(RECEIVED)
    ended = await aictl(control_plane, *command, "--timeout", "0")
    assert ended.code == 5, ended.err
    assert await path.dmcr.counter(RECEIVED) - received < 16 * MIB
    await path.cluster.phase(model, Phase.PUBLISHING)


async def test_who_may_not_read_the_secret_is_told_which_role_to_ask_for(
    path: WholePath, control_plane: Path, namespace: str, file: Path, tmp_path: Path
) -> None:
    model = await path.waiting("guarded")
    config = await user(control_plane, namespace, "stranger", [MODEL_RIGHTS], tmp_path)
    command = ("upload", "guarded", str(file), "--timeout", "0")
    refused = await aictl(config, *command)
    assert refused.code == 4
    assert f"Ask for a RoleBinding to Role ai-model-upload-reader-guarded in {namespace}" in refused.err

    await path.cluster.client.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "stranger-uploads", "namespace": namespace},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": names.upload_role(Key.of(model)),
            },
            "subjects": [{"kind": "ServiceAccount", "name": "stranger", "namespace": namespace}],
        },
        kind=ROLE_BINDING,
    )
    path.line.left = 0
    lost = await aictl(config, *command)
    assert lost.code == 4
    assert (
        f"localhost:{path.line.port} does not answer from here, going through the Kubernetes API" in lost.err
    )
    assert "The upload gateway cannot be reached" in lost.err

    path.line.left = float("inf")
    allowed = await aictl(config, *command)
    assert allowed.code == 5, allowed.err
    await path.cluster.phase(model, Phase.PUBLISHING)


async def test_what_is_no_model_fails_with_the_workers_words_and_may_be_tried_again(
    path: WholePath, control_plane: Path, namespace: str
) -> None:
    model = await path.waiting("junk")
    assert model.status
    assert model.status.upload
    secret = await path.cluster.client.get(Secret, model.status.upload.secret_name, namespace)
    said = {key: value.decode() for key, value in secret.data.items()}
    trust = ssl.create_default_context(cadata=said["ca.crt"])
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {said['token']}"}) as web,
        web.put(f"{said['url']}?filename=junk.gguf", data=b"GGUF" + bytes(20), ssl=trust) as answer,
    ):
        assert answer.ok, await answer.text()
    await path.cluster.phase(model, Phase.PUBLISHING)
    waiting = await Aictl.start(control_plane, "wait", "junk", "-n", namespace)
    await path.published(model)
    failed = await waiting.end()
    assert failed.code == 3
    assert "has failed (PublicationFailed). junk.gguf: offset 4: GGUF version 0 is unknown" in failed.err
    assert f"aictl retry junk -n {namespace}" in failed.err

    assert (await aictl(control_plane, "retry", "junk", "-n", namespace)).code == 0
    await path.cluster.phase(model, Phase.WAIT_FOR_UPLOAD)


async def test_a_killed_worker_is_followed_by_one_that_ends_the_work(
    path: WholePath, control_plane: Path, namespace: str, tmp_path: Path
) -> None:
    small = tmp_path / "small.gguf"
    small.write_bytes(gguf_bytes(size=8 * MIB))
    uploading = await Aictl.start(control_plane, "upload", "twice", str(small), "-n", namespace, "--create")
    model = await path.model("twice", Phase.PUBLISHING)
    first = await path.worker(model)
    await first.start()
    await first.kill()
    await path.cluster.end_pod(await path.cluster.job(model), 137)
    await path.published(model, attempt=2)
    ended = await uploading.end()
    assert ended.code == 0, ended.err


async def test_a_model_that_is_deleted_ends_the_wait(
    path: WholePath, control_plane: Path, namespace: str
) -> None:
    model = await path.waiting("unwanted")
    waiting = await Aictl.start(control_plane, "wait", "unwanted", "-n", namespace)
    await path.cluster.client.patch(
        Model, "unwanted", {"metadata": {"finalizers": ["tests/held"]}}, namespace=namespace
    )
    await path.cluster.delete(model)
    ended = await waiting.end()
    await path.cluster.client.patch(Model, "unwanted", {"metadata": {"finalizers": []}}, namespace=namespace)
    assert ended.code == 3
    assert f"Model {namespace}/unwanted is being deleted" in ended.err
