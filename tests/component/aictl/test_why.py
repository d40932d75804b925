"""``aictl why`` and ``aictl chat`` as a user runs them: a process, a real API server, own rights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from aiinference.api.orders import InferenceService
from aimodels.api.model import Model
from kubekit.client import Client, connect
from tests.kit import inferenceapi, modelsapi
from tests.kit.commandline import Aictl, aictl
from tests.kit.modelsapi import MODEL_RIGHTS, StoredStatus, user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SINCE = "2026-11-29T00:00:00Z"
ORDER_RIGHTS = {"apiGroups": ["ai.deckhouse.io"], "resources": ["inferenceservices"], "verbs": ["get"]}

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(loop_scope="session")
async def client(control_plane: Path) -> AsyncIterator[Client]:
    async with connect(control_plane) as client:
        await modelsapi.install_definitions(client)
        await modelsapi.install_definitions(client, chart=inferenceapi.CHART)
        yield client


async def order(client: Client, namespace: str, *conditions: tuple[str, str, str, str], phase: str) -> None:
    """An order for the model ``gemma`` that says this about itself."""
    model = {"src": "ai-models", "ref": {"kind": "Model", "name": "gemma"}}
    body: dict[str, Any] = {
        "apiVersion": "ai.deckhouse.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "llm", "namespace": namespace},
        "spec": {"model": model},
    }
    await client.create(body)
    said = [
        {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": SINCE}
        for kind, status, reason, message in conditions
    ]
    status = {"phase": phase, "conditions": said, "authSecretName": "llm-auth"}
    await client.patch(InferenceService, "llm", {"status": status}, namespace=namespace, subresource="status")


async def model(client: Client, namespace: str) -> StoredStatus:
    metadata = {"name": "gemma", "namespace": namespace}
    spec: dict[str, Any] = {"source": {"upload": {}}}
    await client.create(
        {"apiVersion": "ai.deckhouse.io/v1alpha1", "kind": "Model", "metadata": metadata, "spec": spec}
    )
    return StoredStatus(client, Model, "gemma", namespace)


HOLDS = ("ClassResolved", "True", "BuiltInPolicy", "The built-in policy holds.")
WAITS = ("ModelResolved", "False", "ModelNotReady", "Model gemma is not ready.")


async def test_an_order_is_explained_down_to_its_model(
    client: Client, control_plane: Path, namespace: str
) -> None:
    await (await model(client, namespace)).write("Publishing", "Downloading", "Half of it is there.")
    await order(client, namespace, HOLDS, WAITS, phase="Pending")
    ended = await aictl(control_plane, "why", f"{namespace}/llm")
    assert ended.code == 1
    assert (
        f"InferenceService {namespace}/llm is Pending: Model gemma is not ready (ModelNotReady)" in ended.out
    )
    assert "model  Model/gemma  Publishing  Downloading" in ended.out
    assert f"Next: `aictl wait gemma -n {namespace}`" in ended.out


async def test_what_the_user_may_not_read_is_said_to_be_so(
    client: Client, control_plane: Path, namespace: str, tmp_path: Path
) -> None:
    await order(client, namespace, HOLDS, WAITS, phase="Pending")
    mine = await user(control_plane, namespace, "narrow", [ORDER_RIGHTS], tmp_path)
    ended = await aictl(mine, "why", "llm", "--json")
    document = json.loads(ended.out)
    assert (ended.code, document["reason"]) == (1, "ModelNotReady")
    assert {"part": "pods", "name": "", "state": "cannot be read by you"} in document["chain"]
    assert {
        "part": "model",
        "name": "Model/gemma",
        "state": "cannot be read by you, or is not there",
    } in document["chain"]


async def test_a_name_without_an_order_may_be_a_models(
    client: Client, control_plane: Path, namespace: str, tmp_path: Path
) -> None:
    await (await model(client, namespace)).write("Failed", "PublicationFailed", "The header ends early.")
    mine = await user(control_plane, namespace, "modeller", [MODEL_RIGHTS], tmp_path)
    ended = await aictl(mine, "why", "gemma")
    assert ended.code == 3
    assert f"Model {namespace}/gemma is Failed: The header ends early (PublicationFailed)" in ended.out


async def test_a_name_of_nothing_is_wrong_use(client: Client, control_plane: Path, namespace: str) -> None:
    ended = await aictl(control_plane, "why", "nothing", "-n", namespace)
    assert ended.code == 2
    assert "There is no order, model or workload nothing" in ended.err


async def workload(client: Client, namespace: str, annotations: dict[str, str]) -> None:
    """A Deployment ``app`` with these annotations."""
    template = {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "a", "image": "example.invalid/a"}]},
    }
    await client.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "app", "namespace": namespace, "annotations": annotations},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "a"}}, "template": template},
        }
    )


async def test_a_workload_tells_what_its_models_wait_for(
    client: Client, control_plane: Path, namespace: str
) -> None:
    annotations = {
        "ai.deckhouse.io/model": "gemma",
        "ai.deckhouse.io/model-delivery-blocked-reason": "SharedPVCQuotaExceeded",
        "ai.deckhouse.io/model-delivery-blocked-message": "The quota is used up.",
    }
    await workload(client, namespace, annotations)
    ended = await aictl(control_plane, "why", "app", "-n", namespace)
    assert "The quota is used up (SharedPVCQuotaExceeded)" in ended.out
    assert "Model/gemma" in ended.out
    assert ended.code == 3


async def test_a_workload_that_names_a_missing_model_is_told_to_correct_that(
    client: Client, control_plane: Path, namespace: str, tmp_path: Path
) -> None:
    annotations = {
        "ai.deckhouse.io/model": "gemmma",
        "ai.deckhouse.io/model-delivery-blocked-reason": "SharedPVCMaterializerPending",
        "ai.deckhouse.io/model-delivery-blocked-message": "There is no Model gemmma.",
    }
    await workload(client, namespace, annotations)
    ended = await aictl(control_plane, "why", "app", "-n", namespace)
    assert ended.code == 3
    assert ended.out.splitlines()[-1] == "Next: Create Model gemmma, or correct the annotation"
    rights = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]}
    mine = await user(control_plane, namespace, "narrow", [rights], tmp_path)
    hidden = await aictl(mine, "why", "app")
    assert (hidden.code, "cannot be read by you" in hidden.out) == (1, True)


async def test_nobody_talks_to_an_order_that_is_not_ready(
    client: Client, control_plane: Path, namespace: str
) -> None:
    await order(client, namespace, HOLDS, WAITS, phase="Pending")
    ended = await aictl(control_plane, "chat", "llm", "hi", "-n", namespace)
    assert ended.code == 1
    assert f"aictl why llm -n {namespace}" in ended.err


async def test_who_may_not_read_the_key_is_told_the_role(
    client: Client, control_plane: Path, namespace: str, tmp_path: Path
) -> None:
    await order(client, namespace, HOLDS, ("Ready", "True", "Ready", "The API answers."), phase="Ready")
    mine = await user(control_plane, namespace, "narrow", [ORDER_RIGHTS], tmp_path)
    ended = await aictl(mine, "chat", "llm", "hi")
    assert ended.code == 4
    assert "Role llm-auth-reader" in ended.err


async def test_an_order_without_pods_is_a_failure_with_a_next_step(
    client: Client, control_plane: Path, namespace: str
) -> None:
    await order(client, namespace, HOLDS, ("Ready", "True", "Ready", "The API answers."), phase="Ready")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "llm-auth", "namespace": namespace}}
    await client.create(secret | {"stringData": {"token": "key"}})
    ended = await aictl(control_plane, "chat", "llm", "hi", "-n", namespace)
    assert ended.code == 1
    assert "No Pod of llm is ready" in ended.err


async def test_waiting_for_an_order_ends_when_it_is_ready(
    client: Client, control_plane: Path, namespace: str
) -> None:
    await order(client, namespace, HOLDS, WAITS, phase="Pending")
    waiting = await Aictl.start(control_plane, "wait", "llm", "-n", namespace, "--json")
    said = [
        {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": SINCE}
    ]
    status = {"phase": "Ready", "observedGeneration": 1, "conditions": said}
    await client.patch(InferenceService, "llm", {"status": status}, namespace=namespace, subresource="status")
    ended = await waiting.end()
    assert (ended.code, json.loads(ended.out)["phase"]) == (0, "Ready")


async def test_waiting_for_an_order_that_needs_a_change_is_given_up(
    client: Client, control_plane: Path, namespace: str
) -> None:
    refused = ("Planned", "False", "QuantizationMismatch", "The engine cannot read TQ9.")
    await order(client, namespace, HOLDS, refused, phase="Pending")
    generation = {"status": {"observedGeneration": 1}}
    await client.patch(InferenceService, "llm", generation, namespace=namespace, subresource="status")
    ended = await aictl(control_plane, "wait", "llm", "-n", namespace)
    assert ended.code == 3
    assert "QuantizationMismatch" in ended.err


async def test_waiting_for_an_order_ends_with_the_time(
    client: Client, control_plane: Path, namespace: str
) -> None:
    await model(client, namespace)
    await order(client, namespace, HOLDS, WAITS, phase="Pending")
    ended = await aictl(control_plane, "wait", "llm", "--order", "-n", namespace, "--timeout", "0.2")
    assert ended.code == 5
    assert "Pending  ModelNotReady" in ended.err
