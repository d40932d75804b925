"""aictl as a user runs it: a process, a real API server, their own rights; what it makes of what is there."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
import yaml

from aimodels.api.model import ClusterModel, Model
from kubekit.client import Client, connect
from tests.kit.commandline import aictl
from tests.kit.models import gguf_bytes
from tests.kit.modelsapi import MODEL_RIGHTS, StoredStatus, install_definitions, user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

DIGEST = f"sha256:{'a' * 64}"
RESOLVED = {"format": "GGUF", "family": "gemma3", "parameterCount": 268_098_176, "quantization": "Q4_K_M"}

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(loop_scope="session")
async def client(control_plane: Path) -> AsyncIterator[Client]:
    async with connect(control_plane) as client:
        await install_definitions(client)
        yield client


async def _upload_model(client: Client, namespace: str, name: str) -> StoredStatus:
    metadata = {"name": name, "namespace": namespace}
    spec: dict[str, object] = {"source": {"upload": {}}}
    await client.create(
        {"apiVersion": "ai.deckhouse.io/v1alpha1", "kind": "Model", "metadata": metadata, "spec": spec}
    )
    return StoredStatus(client, Model, name, namespace)


async def test_a_model_that_fails_ends_the_wait_with_its_reason(
    client: Client, control_plane: Path, namespace: str
) -> None:
    status = await _upload_model(client, namespace, "broken")
    await status.write("Failed", "PublicationFailed", "The header ends after 12 bytes.")
    ended = await aictl(control_plane, "wait", "broken", "-n", namespace)
    assert ended.code == 3
    assert (
        "has failed (PublicationFailed). The header ends after 12 bytes. When the cause is gone:" in ended.err
    )
    assert f"aictl retry broken -n {namespace}" in ended.err


async def test_waiting_ends_with_the_time_or_with_ready(
    client: Client, control_plane: Path, namespace: str
) -> None:
    status = await _upload_model(client, namespace, "slow")
    await status.write("Publishing", "Verifying", "Checked 10 of 20 GiB.", progress="50%")
    ended = await aictl(control_plane, "wait", "slow", "-n", namespace, "--timeout", "0")
    assert ended.code == 5
    assert "Publishing  Verifying  50%" in ended.err
    await status.write("Pending", "StorageUnavailable", "The registry does not answer.")
    ended = await aictl(control_plane, "wait", "slow", "-n", namespace, "--timeout", "0")
    assert "Pending  StorageUnavailable  50%\nThe registry does not answer.\n" in ended.err
    await status.write("Ready", "Ready")
    ended = await aictl(control_plane, "wait", "slow", "-n", namespace)
    assert (ended.code, ended.out) == (0, f"Model {namespace}/slow is Ready\n")


async def test_a_status_of_an_older_source_is_not_believed(
    client: Client, control_plane: Path, namespace: str
) -> None:
    status = await _upload_model(client, namespace, "corrected")
    await status.write("Failed", "UnsupportedSource", "No.")
    source = {"upload": None, "url": "https://huggingface.co/acme/llm"}
    await client.patch(Model, "corrected", {"spec": {"source": source}}, namespace=namespace)
    ended = await aictl(control_plane, "wait", "corrected", "-n", namespace, "--timeout", "0")
    assert ended.code == 5


async def test_a_model_with_another_source_takes_no_upload(
    client: Client, control_plane: Path, namespace: str, tmp_path: Path
) -> None:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(gguf_bytes())
    await client.create(
        {
            "apiVersion": "ai.deckhouse.io/v1alpha1",
            "kind": "Model",
            "metadata": {"name": "hub", "namespace": namespace},
            "spec": {"source": {"url": "https://huggingface.co/acme/llm"}},
        }
    )
    ended = await aictl(control_plane, "upload", "hub", str(file), "-n", namespace)
    assert ended.code == 2
    assert "takes no upload" in ended.err


async def test_a_missing_namespace_is_told_before_anything_is_made(
    client: Client, control_plane: Path, tmp_path: Path
) -> None:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(gguf_bytes())
    ended = await aictl(control_plane, "upload", "m", str(file), "-n", "nowhere", "--create")
    assert ended.code == 2
    assert "There is no namespace nowhere" in ended.err


async def test_retry_leaves_a_new_mark(client: Client, control_plane: Path, namespace: str) -> None:
    await _upload_model(client, namespace, "failed")
    ended = await aictl(control_plane, "retry", "failed", "-n", namespace)
    assert ended.code == 0
    assert f"aictl wait failed -n {namespace}" in ended.out
    model = await client.get(Model, "failed", namespace)
    assert model.metadata.annotations["ai.deckhouse.io/retry"]


async def test_models_of_a_namespace_and_of_the_cluster_are_listed(
    client: Client, control_plane: Path, namespace: str, tmp_path: Path
) -> None:
    empty = await aictl(control_plane, "models", "-n", namespace, "--json")
    status = await _upload_model(client, namespace, "gemma")
    await status.write(
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
        listed = await aictl(control_plane, "models", "-n", namespace)
        documents = await aictl(control_plane, "models", "-n", namespace, "--json")
    finally:
        await client.delete(ClusterModel, namespace)
    lines = listed.out.splitlines()
    assert lines[0].split() == ["NAMESPACE", "NAME", "PHASE", "REASON", "PROGRESS", "FORMAT", "SIZE", "AGE"]
    assert lines[1].split()[:8] == [namespace, "gemma", "Ready", "Ready", "100%", "GGUF", "2.1", "GiB"]
    assert ["(cluster)", namespace] in [line.split()[:2] for line in lines]
    mine = [one for one in json.loads(documents.out) if one.get("namespace") == namespace]
    assert [(one["name"], one["artifact"]["sizeBytes"]) for one in mine] == [("gemma", 2_254_857_830)]
    assert [one for one in json.loads(empty.out) if one["kind"] == "Model"] == []
    config = await user(control_plane, namespace, "reader", [MODEL_RIGHTS], tmp_path)
    own = await aictl(config, "models")
    assert own.code == 0
    assert "ClusterModels are not shown, listing them is not allowed to you" in own.err
    denied = await aictl(config, "models", "--cluster")
    assert denied.code == 4


async def test_a_missing_model_is_named(client: Client, control_plane: Path, namespace: str) -> None:
    for command in ("wait", "retry"):
        ended = await aictl(control_plane, command, "nothing", "-n", namespace)
        assert ended.code == 2
        assert f"There is no Model {namespace}/nothing" in ended.err


async def test_a_credential_plugin_of_the_stable_version_gives_the_token(
    client: Client, control_plane: Path, namespace: str, tmp_path: Path
) -> None:
    config = await user(control_plane, namespace, "reader", [MODEL_RIGHTS], tmp_path)
    kubeconfig = yaml.safe_load(config.read_text())
    credential = {"kind": "ExecCredential", "status": kubeconfig["users"][0]["user"]}
    plugin = tmp_path / "plugin"
    plugin.write_text(f"""#!/bin/sh
        case "$KUBERNETES_EXEC_INFO" in
            *'"client.authentication.k8s.io/v1"'*) echo '{json.dumps(credential)}';;
        esac
    """)
    plugin.chmod(0o700)
    asked = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}
    kubeconfig["users"][0]["user"] = {"exec": asked}
    config.write_text(yaml.safe_dump(kubeconfig))
    ended = await aictl(config, "models")
    assert ended.code == 0, ended.err
    await asyncio.to_thread(plugin.write_text, "#!/bin/sh\necho nonsense\n")
    ended = await aictl(config, "models")
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert "This went wrong unexpectedly (JSONDecodeError: " in ended.err
    await asyncio.to_thread(plugin.unlink)
    ended = await aictl(config, "models")
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert "The credentials of the kubeconfig cannot be had" in ended.err
