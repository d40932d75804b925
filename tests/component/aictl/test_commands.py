"""aictl as a user runs it: a process, a real API server, their own rights; the catalogue is played here."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import ssl
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from aimodels.api.model import ClusterModel, Model
from aimodels.api.reasons import Phase
from kubekit.client import Client, connect
from modelio.registry import NotFound
from tests.kit.eventually import eventually
from tests.kit.httpproxy import HttpProxy
from tests.kit.modelsapi import Catalogue, install_definitions, user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from tests.kit.gatewayworld import Ticket, World

MODELS = {
    "apiGroups": ["ai.deckhouse.io"],
    "resources": ["models"],
    "verbs": ["get", "list", "create", "patch"],
}
CONTENT = b"GGUF" + os.urandom(3_000_000)
DIGEST = f"sha256:{'a' * 64}"
RESOLVED = {"format": "GGUF", "family": "gemma3", "parameterCount": 268_098_176, "quantization": "Q4_K_M"}

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="session")]


@dataclass
class Ended:
    code: int
    out: str
    err: str


@pytest_asyncio.fixture(loop_scope="session")
async def client(control_plane: Path) -> AsyncIterator[Client]:
    async with connect(control_plane) as client:
        await install_definitions(client)
        yield client


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(CONTENT)
    return path


async def _start(kubeconfig: Path, *arguments: str) -> asyncio.subprocess.Process:
    environment = {"PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig), "PYTHONPATH": "src"}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "aictl", *arguments, env=environment, stdout=-1, stderr=-1
    )


async def _end(process: asyncio.subprocess.Process) -> Ended:
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


async def _aictl(kubeconfig: Path, *arguments: str) -> Ended:
    return await _end(await _start(kubeconfig, *arguments))


async def _upload_model(client: Client, namespace: str, name: str) -> Catalogue:
    metadata = {"name": name, "namespace": namespace}
    spec: dict[str, object] = {"source": {"upload": {}}}
    await client.create(
        {"apiVersion": "ai.deckhouse.io/v1alpha1", "kind": "Model", "metadata": metadata, "spec": spec}
    )
    return Catalogue(client, Model, name, namespace)


async def _ready(catalogue: Catalogue, content: bytes) -> None:
    artifact = {"digest": DIGEST, "sizeBytes": len(content)}
    source = {"resolvedType": "Upload", "resolvedRevision": f"sha256:{hashlib.sha256(content).hexdigest()}"}
    await catalogue.tell(
        "Ready", "Ready", "", artifact=artifact, resolved=RESOLVED, source=source, upload=None
    )


def received(world: World, ticket: Ticket) -> Callable[[], Awaitable[bool]]:
    """Return a question whether the whole file arrived."""

    async def look() -> bool:
        try:
            return bool(await world.received(ticket))
        except NotFound:
            return False

    return look


async def stored(world: World, ticket: Ticket) -> bytes:
    layer = json.loads((await world.received(ticket)).body)["layers"][0]
    return await world.stored(ticket, layer["digest"])


async def test_an_upload_from_create_to_ready(
    client: Client, control_plane: Path, namespace: str, file: Path, gateway_world: World
) -> None:
    catalogue = Catalogue(client, Model, "gemma", namespace)
    ticket = await gateway_world.allow()
    trusted = await asyncio.to_thread(gateway_world.gateway.ca_file.read_text)
    command = ("upload", "gemma", str(file), "-n", namespace, "--create")
    process = await _start(control_plane, *command)
    await catalogue.appeared()
    await catalogue.issue_upload(
        "ai-model-upload-gemma", namespace, url=ticket.url, token=ticket.token, ca_crt=trusted
    )
    await eventually(received(gateway_world, ticket))
    await catalogue.tell("Publishing", "Verifying", "", upload=None)
    await _ready(catalogue, CONTENT)
    ended = await _end(process)
    assert ended.code == 0, ended.err
    assert await stored(gateway_world, ticket) == CONTENT
    assert f"Model {namespace}/gemma created" in ended.err
    assert "GGUF, gemma3, 268 M parameters, Q4_K_M, 2.9 MiB" in ended.err
    assert ended.out.startswith("Ready in ")
    assert f"kubectl -n {namespace} annotate deploy/app ai.deckhouse.io/model=gemma" in ended.out
    again = await _aictl(control_plane, *command, "--json")
    assert again.code == 0
    assert json.loads(again.out)["phase"] == Phase.READY
    await asyncio.to_thread(file.write_bytes, CONTENT[:-1])
    other = await _aictl(control_plane, *command)
    assert other.code == 3
    assert "was made of another file" in other.err


async def test_an_interrupted_upload_goes_on_with_the_same_command(
    client: Client, control_plane: Path, namespace: str, file: Path, gateway_world: World
) -> None:
    catalogue = await _upload_model(client, namespace, "gemma")
    ticket = await gateway_world.allow()
    trust = ssl.create_default_context(cafile=gateway_world.gateway.ca_file)
    async with HttpProxy(gateway_world.gateway.url, trust=trust) as proxy:
        for _ in range(2):
            proxy.reply("HEAD", "", 200, headers={"Upload-Offset": "0"})
        for _ in range(50):
            proxy.fail("HEAD", "", 503)
        proxy.cut_request("PUT", "", 1_000_000)

        async def is_waiting() -> bool:
            return len(proxy.asked("HEAD")) > 2

        url = f"{proxy.url}/v1/upload/{ticket.session}"
        await catalogue.issue_upload("secret", namespace, url=url, token=ticket.token)
        process = await _start(control_plane, "upload", "gemma", str(file), "-n", namespace)
        await eventually(is_waiting)
        process.send_signal(signal.SIGINT)
        interrupted = await _end(process)
        assert interrupted.code == 130
        assert "the same command goes on where this one stopped" in interrupted.err
        proxy.forgive()
        process = await _start(control_plane, "upload", "gemma", str(file), "-n", namespace)
        await eventually(received(gateway_world, ticket))
        await _ready(catalogue, CONTENT)
        assert (await _end(process)).code == 0
    first, second = (one.range for one in proxy.asked("PUT"))
    assert first is None
    assert second
    assert 0 < int(second.removeprefix("bytes ").partition("-")[0]) <= 1_000_000
    assert await stored(gateway_world, ticket) == CONTENT


async def test_who_may_not_read_the_secret_is_told_which_role_to_ask_for(
    client: Client, control_plane: Path, namespace: str, file: Path, tmp_path: Path
) -> None:
    catalogue = await _upload_model(client, namespace, "gemma")
    await catalogue.issue_upload("ai-model-upload-gemma", namespace, url="https://nowhere", token="right")
    config = await user(control_plane, namespace, "stranger", [MODELS], tmp_path)
    ended = await _aictl(config, "upload", "gemma", str(file))
    assert ended.code == 4
    assert f"Ask for a RoleBinding to Role ai-model-upload-reader-gemma in {namespace}" in ended.err


async def test_an_address_that_leads_nowhere_and_no_right_to_the_gateway_is_told(
    client: Client, control_plane: Path, namespace: str, file: Path, tmp_path: Path
) -> None:
    catalogue = await _upload_model(client, namespace, "gemma")
    inside = f"https://ai-models-upload-gateway.{namespace}.svc:8443/v1/upload/x"
    await catalogue.issue_upload(
        "secret", namespace, url="http://127.0.0.1:1/x", token="right", inClusterUrl=inside
    )
    secrets = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["secret"], "verbs": ["get"]}
    config = await user(control_plane, namespace, "uploader", [MODELS, secrets], tmp_path)
    ended = await _aictl(config, "upload", "gemma", str(file))
    assert ended.code == 4
    assert "127.0.0.1:1 does not answer from here, going through the Kubernetes API" in ended.err
    assert "The upload gateway cannot be reached" in ended.err


async def test_a_model_that_fails_ends_the_wait_with_its_reason(
    client: Client, control_plane: Path, namespace: str
) -> None:
    catalogue = await _upload_model(client, namespace, "broken")
    await catalogue.tell("Failed", "PublicationFailed", "The header ends after 12 bytes.")
    ended = await _aictl(control_plane, "wait", "broken", "-n", namespace)
    assert ended.code == 3
    assert (
        "has failed (PublicationFailed). The header ends after 12 bytes. When the cause is gone:" in ended.err
    )
    assert f"aictl retry broken -n {namespace}" in ended.err


async def test_waiting_ends_with_the_time_or_with_ready(
    client: Client, control_plane: Path, namespace: str
) -> None:
    catalogue = await _upload_model(client, namespace, "slow")
    await catalogue.tell("Publishing", "Verifying", "Checked 10 of 20 GiB.", progress="50%")
    ended = await _aictl(control_plane, "wait", "slow", "-n", namespace, "--timeout", "0")
    assert ended.code == 5
    assert "Publishing  Verifying  50%" in ended.err
    await catalogue.tell("Pending", "StorageUnavailable", "The registry does not answer.")
    ended = await _aictl(control_plane, "wait", "slow", "-n", namespace, "--timeout", "0")
    assert "Pending  StorageUnavailable  50%\nThe registry does not answer.\n" in ended.err
    await _ready(catalogue, b"slow")
    ended = await _aictl(control_plane, "wait", "slow", "-n", namespace)
    assert (ended.code, ended.out) == (0, f"Model {namespace}/slow is Ready\n")


async def test_a_status_of_an_older_source_is_not_believed(
    client: Client, control_plane: Path, namespace: str
) -> None:
    catalogue = await _upload_model(client, namespace, "corrected")
    await catalogue.tell("Failed", "UnsupportedSource", "No.")
    source = {"upload": None, "url": "https://huggingface.co/acme/llm"}
    await client.patch(Model, "corrected", {"spec": {"source": source}}, namespace=namespace)
    ended = await _aictl(control_plane, "wait", "corrected", "-n", namespace, "--timeout", "0")
    assert ended.code == 5


async def test_a_model_with_another_source_takes_no_upload(
    client: Client, control_plane: Path, namespace: str, file: Path
) -> None:
    await client.create(
        {
            "apiVersion": "ai.deckhouse.io/v1alpha1",
            "kind": "Model",
            "metadata": {"name": "hub", "namespace": namespace},
            "spec": {"source": {"url": "https://huggingface.co/acme/llm"}},
        }
    )
    ended = await _aictl(control_plane, "upload", "hub", str(file), "-n", namespace)
    assert ended.code == 2
    assert "takes no upload" in ended.err


async def test_retry_leaves_a_new_mark(client: Client, control_plane: Path, namespace: str) -> None:
    await _upload_model(client, namespace, "failed")
    ended = await _aictl(control_plane, "retry", "failed", "-n", namespace)
    assert ended.code == 0
    assert f"aictl wait failed -n {namespace}" in ended.out
    model = await client.get(Model, "failed", namespace)
    assert model.metadata.annotations["ai.deckhouse.io/retry"]


async def test_models_of_a_namespace_and_of_the_cluster_are_listed(
    client: Client, control_plane: Path, namespace: str, tmp_path: Path
) -> None:
    empty = await _aictl(control_plane, "models", "-n", namespace, "--json")
    catalogue = await _upload_model(client, namespace, "gemma")
    await catalogue.tell(
        "Ready",
        "Ready",
        "",
        artifact={"digest": DIGEST, "sizeBytes": 2_254_857_830},
        resolved=RESOLVED,
        progress="100%",
    )
    shared = {
        "apiVersion": "ai.deckhouse.io/v1alpha1",
        "kind": "ClusterModel",
        "metadata": {"name": namespace},
    }
    await client.create(shared | {"spec": {"source": {"upload": {}}}})
    try:
        listed = await _aictl(control_plane, "models", "-n", namespace)
        documents = await _aictl(control_plane, "models", "-n", namespace, "--json")
    finally:
        await client.delete(ClusterModel, namespace)
    lines = listed.out.splitlines()
    assert lines[0].split() == ["NAMESPACE", "NAME", "PHASE", "REASON", "PROGRESS", "FORMAT", "SIZE", "AGE"]
    assert lines[1].split()[:8] == [namespace, "gemma", "Ready", "Ready", "100%", "GGUF", "2.1", "GiB"]
    assert ["(cluster)", namespace] in [line.split()[:2] for line in lines]
    mine = [one for one in json.loads(documents.out) if one.get("namespace") == namespace]
    assert [(one["name"], one["artifact"]["sizeBytes"]) for one in mine] == [("gemma", 2_254_857_830)]
    assert [one for one in json.loads(empty.out) if one["kind"] == "Model"] == []
    config = await user(control_plane, namespace, "reader", [MODELS], tmp_path)
    own = await _aictl(config, "models")
    assert own.code == 0
    assert "ClusterModels are not shown, listing them is not allowed to you" in own.err
    denied = await _aictl(config, "models", "--cluster")
    assert denied.code == 4


async def test_a_missing_model_is_named(client: Client, control_plane: Path, namespace: str) -> None:
    for command in ("wait", "retry"):
        ended = await _aictl(control_plane, command, "nothing", "-n", namespace)
        assert ended.code == 2
        assert f"There is no Model {namespace}/nothing" in ended.err
