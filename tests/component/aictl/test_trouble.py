"""aictl and an API server that loses answers, is restarted, or does not take the token."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
import yaml

from aimodels.api.model import Model
from kubekit.client import Client, connect
from tests.kit.breaking import Breaking
from tests.kit.commandline import Aictl, aictl
from tests.kit.eventually import eventually
from tests.kit.faultproxy import FaultProxy, Request
from tests.kit.models import gguf_bytes
from tests.kit.modelsapi import StoredStatus, install_definitions, user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="session")]

NAME = "gemma"
DENIED, TIMED_OUT, INTERRUPTED = 4, 5, 130


class World:
    """An API server that can fail, and a line to it that can break; a model whose status stands still."""

    def __init__(self, client: Client, proxy: FaultProxy, line: Breaking, namespace: str) -> None:
        self.client = client
        self.proxy = proxy
        self.line = line
        self.namespace = namespace
        self.status = StoredStatus(client, Model, NAME, namespace)

    async def make(self) -> None:
        await self.client.create(
            {
                "apiVersion": "ai.deckhouse.io/v1alpha1",
                "kind": "Model",
                "metadata": {"name": NAME, "namespace": self.namespace},
                "spec": {"source": {"upload": {}}},
            }
        )
        await self.status.write("Publishing", "Verifying")

    @property
    def asked(self) -> int:
        """How often the model was asked for."""
        return sum(map(is_reading, self.proxy.requests))

    def time(self, number: int) -> Callable[[Request], bool]:
        """Match the model being asked for that many times."""
        return lambda request: is_reading(request) and self.asked == number

    async def until_asked(self, times: int) -> None:
        async def often_enough() -> bool:
            return self.asked >= times

        await eventually(often_enough)


def is_reading(request: Request) -> bool:
    return request.method == "GET" and request.path.endswith(f"/models/{NAME}")


@pytest_asyncio.fixture(loop_scope="session")
async def world(control_plane: Path, namespace: str) -> AsyncIterator[World]:
    async with connect(control_plane) as client, FaultProxy(control_plane) as proxy:
        await install_definitions(client)
        async with Breaking(int(proxy.url.rpartition(":")[2])) as line:
            yield World(client, proxy, line, namespace)


@pytest.fixture
def kubeconfig(world: World, tmp_path: Path) -> Path:
    """Return a kubeconfig that leads over the line and through the proxy, which has the rights."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x", "namespace": world.namespace}}],
        "clusters": [{"name": "x", "cluster": {"server": world.line.url}}],
        "users": [{"name": "x", "user": {}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf_bytes())
    return path


async def test_answers_that_are_lost_or_refused_for_now_are_asked_for_again(
    world: World, kubeconfig: Path
) -> None:
    await world.make()
    world.proxy.lose(world.time(1))
    world.proxy.answer(503, world.time(3))
    world.proxy.answer(429, world.time(5), headers={"Retry-After": "0"})
    world.proxy.answer(410, world.time(7))
    waiting = await Aictl.start(kubeconfig, "wait", NAME)
    await world.until_asked(8)
    await world.status.write("Ready", "Ready")
    ended = await waiting.end()
    assert (ended.code, ended.out) == (0, f"Model {world.namespace}/{NAME} is Ready\n")
    assert ended.err.count("asking again") == 4


async def test_a_restarted_api_server_is_waited_for_until_it_knows_tokens_and_roles_again(
    world: World, kubeconfig: Path
) -> None:
    await world.make()
    waiting = await Aictl.start(kubeconfig, "wait", NAME)
    await waiting.says("Publishing")
    world.line.left = 0
    await waiting.says("asking again")
    world.proxy.answer(401, is_reading)
    world.proxy.answer(403, is_reading)
    await world.status.write("Ready", "Ready")
    world.line.left = float("inf")
    ended = await waiting.end()
    assert ended.code == 0, ended.err


async def test_an_api_server_that_stays_away_is_a_time_that_is_over(world: World, kubeconfig: Path) -> None:
    await world.make()
    waiting = await Aictl.start(kubeconfig, "wait", NAME, "--timeout", "3")
    await waiting.says("Publishing")
    world.line.left = 0
    ended = await waiting.end()
    assert ended.code == TIMED_OUT
    last = ended.err.splitlines()[-1]
    assert last.startswith(
        f"aictl: Model {world.namespace}/{NAME} cannot be read. The Kubernetes API does not"
    )
    assert "`kubectl get ns` should answer" in last


async def test_a_model_whose_creation_was_not_told_is_taken_as_there(
    world: World, kubeconfig: Path, file: Path
) -> None:
    world.proxy.lose(lambda request: request.method == "POST")
    uploading = await Aictl.start(kubeconfig, "upload", NAME, str(file), "--create")
    await world.until_asked(1)
    await world.status.write("Ready", "Ready")
    ended = await uploading.end()
    assert ended.code == 0, ended.err
    assert sum(request.method == "POST" for request in world.proxy.requests) == 2


@pytest.mark.parametrize("status", [401, 403])
async def test_a_token_that_is_refused_meanwhile_ends_the_wait(
    world: World, kubeconfig: Path, status: int
) -> None:
    await world.make()
    waiting = await Aictl.start(kubeconfig, "wait", NAME)
    await waiting.says("Publishing")
    world.proxy.answer(status, is_reading, times=100)
    assert (await waiting.end()).code == DENIED


async def test_who_may_not_is_told_so_in_one_line(
    world: World, control_plane: Path, tmp_path: Path, file: Path
) -> None:
    await world.make()
    stranger = await user(control_plane, world.namespace, "stranger", [], tmp_path)
    nobody = tmp_path / "nobody"
    config = yaml.safe_load(stranger.read_text())
    config["users"][0]["user"]["token"] = "wrong"
    nobody.write_text(yaml.safe_dump(config))
    tried = (
        (stranger, ("upload", NAME, str(file), "--create"), "is forbidden"),
        (stranger, ("retry", NAME), "is forbidden"),
        (nobody, ("wait", NAME), "does not accept the credentials"),
        (nobody, ("models",), "does not accept the credentials"),
    )
    for kubeconfig, command, why in tried:
        ended = await aictl(kubeconfig, *command)
        assert (ended.code, ended.out, ended.err.count("\n")) == (DENIED, "", 1), ended.err
        assert why in ended.err


async def test_an_interrupted_wait_says_that_it_goes_on(world: World, kubeconfig: Path) -> None:
    await world.make()
    waiting = await Aictl.start(kubeconfig, "wait", NAME)
    await waiting.says("Publishing")
    waiting.send_signal(signal.SIGINT)
    ended = await waiting.end()
    assert ended.code == INTERRUPTED
    assert ended.err.splitlines()[-1] == "aictl: interrupted; the same command goes on where this one stopped"
