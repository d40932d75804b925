"""From a new object to Ready and away again; gateway and worker are played by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from aimodels.api.model import AnyModel, ClusterModel, Model
from aimodels.api.reasons import ConditionType, ModelReason, Phase
from aimodels.catalog import names
from aimodels.catalog.names import Key
from aimodels.dmcr.swaps import Swaps
from aimodels.dmcr.transfers import Transfer, transfer_key
from kubekit.conditions import find
from kubekit.resources import Job, Role, Secret
from modelio.registry import NotFound, RegistryClient
from objectstore.filesystem import FileSystemStore
from opskit.clock import SystemClock
from tests.kit import upload
from tests.kit.catalog import Cluster, running_catalog
from tests.kit.controlplane import fresh_namespace
from tests.kit.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.kit.dmcr import Dmcr

pytestmark = pytest.mark.asyncio(loop_scope="module")

UPLOAD: dict[str, Any] = {"upload": {}}
GGUF = upload.tiny_gguf()


@pytest.fixture(scope="module")
def namespace(control_plane: Path) -> Iterator[str]:
    with fresh_namespace(control_plane) as name:
        yield name


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(control_plane: Path, namespace: str, running_dmcr: Dmcr) -> AsyncIterator[Cluster]:
    async with running_catalog(control_plane, namespace, running_dmcr.url) as cluster:
        yield cluster


async def transfers(registry: RegistryClient, model: AnyModel) -> set[str]:
    """Return the model's transfers that are on."""
    return {
        item.id for item in await registry.list_transfers() if names.uid_of(item.id) == model.metadata.uid
    }


def reason(model: AnyModel, type_: ConditionType = ConditionType.READY) -> str:
    assert model.status
    condition = find(model.status.conditions, type_)
    assert condition
    return condition.reason


async def publishing(
    cluster: Cluster, registry: RegistryClient, kind: type[AnyModel] = Model, data: bytes = GGUF
) -> AnyModel:
    """Return a model whose upload was received and whose publication Job runs."""
    model = await cluster.phase(await cluster.make(kind, UPLOAD), Phase.WAIT_FOR_UPLOAD)
    await upload.received(registry, names.repository(Key.of(model)), data)
    model = await cluster.phase(model, Phase.PUBLISHING)
    await cluster.job(model)
    return model


async def made_ready(
    cluster: Cluster, registry: RegistryClient, kind: type[AnyModel] = Model, data: bytes = GGUF
) -> AnyModel:
    model = await publishing(cluster, registry, kind, data)
    await upload.published(registry, names.repository(Key.of(model)), data)
    return await cluster.phase(model, Phase.READY)


async def test_a_new_model_waits_for_its_upload(cluster: Cluster, namespace: str) -> None:
    model = await cluster.make(Model, UPLOAD, "uploaded-model")

    model = await cluster.phase(model, Phase.WAIT_FOR_UPLOAD)

    assert model.status
    assert model.status.upload
    assert model.status.upload.secret_name == "ai-model-upload-uploaded-model"
    assert reason(model) == ModelReason.WAITING_FOR_USER_UPLOAD
    secret = await cluster.client.get(Secret, model.status.upload.secret_name, namespace)
    assert {"url", "token", "inClusterUrl", "ca.crt"} == secret.data.keys()
    role = await cluster.client.get(Role, "ai-model-upload-reader-uploaded-model", namespace)
    assert role.rules
    assert role.rules[0].resource_names == [secret.metadata.name]
    assert role.rules[0].verbs == ["get"]


async def test_what_it_allows_ends_by_itself_if_it_is_never_back(
    cluster: Cluster, registry: RegistryClient, dmcr: Dmcr
) -> None:
    waiting = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
    running = await publishing(cluster, registry)
    wanted = await transfers(registry, waiting) | await transfers(registry, running)
    store = FileSystemStore(dmcr.log.parent / "store")
    try:
        swaps = Swaps(store, SystemClock())
        records = [await swaps.load(transfer_key(name), Transfer) for name in wanted]
    finally:
        await store.close()
    found = {(each.value.spec.purpose, each.value.spec.idle_seconds) for each in records if each}
    assert found == {("upload", 24 * 3600), ("publication", 24 * 3600)}


@pytest.mark.parametrize("kind", [Model, ClusterModel])
async def test_an_upload_becomes_a_ready_model(
    cluster: Cluster, registry: RegistryClient, namespace: str, kind: type[AnyModel]
) -> None:
    model = await publishing(cluster, registry, kind)
    repository = names.repository(Key.of(model))
    manifest = await upload.published(registry, repository, GGUF)

    model = await cluster.phase(model, Phase.READY)
    model = await cluster.until(model, lambda one: one.status is not None and one.status.upload is None)

    assert model.status
    assert model.status.artifact
    assert model.status.artifact.digest == manifest
    assert model.status.artifact.size_bytes == len(GGUF) + len(upload.package(GGUF).config)
    assert model.status.resolved
    assert model.status.resolved.family == "gemma3"
    assert model.status.resolved.facts
    assert model.status.resolved.facts.layers == 18
    assert model.status.progress == "100%"
    assert reason(model) == "Ready"
    assert await transfers(registry, model) == set()
    with pytest.raises(NotFound):
        await registry.get_manifest(repository, "upload")
    key = Key.of(model)
    assert await cluster.client.find(Secret, names.upload_secret(key), namespace) is None
    assert await cluster.client.find(Role, names.upload_role(key), namespace) is None
    told = await cluster.events(model)
    assert sorted(told) == ["PublicationSucceeded", "RawStaged", "UploadSessionIssued"]


async def test_the_job_is_restricted_and_knows_its_transfer(
    cluster: Cluster, registry: RegistryClient
) -> None:
    model = await publishing(cluster, registry)

    job = await cluster.job(model)
    pod = job.spec.template["spec"]

    environment = {one["name"]: one["value"] for one in pod["containers"][0]["env"]}
    assert environment["PUBLICATION_REPOSITORY"] == names.repository(Key.of(model))
    assert json.loads(environment["PUBLICATION_SOURCE"]) == {"type": "Upload"}
    transfers = {one.id: one for one in await registry.list_transfers()}
    assert transfers[environment["PUBLICATION_TRANSFER"]].expected_bytes == len(GGUF)
    assert pod["automountServiceAccountToken"] is False
    assert job.metadata.labels["module"] == "ai-models"


async def test_a_permanent_verdict_of_the_worker_fails_the_model_with_its_reason(
    cluster: Cluster, registry: RegistryClient, namespace: str
) -> None:
    model = await publishing(cluster, registry)
    verdict = json.dumps({"reason": "PublicationFailed", "message": "tensor 3 ends behind the file"})
    await cluster.end_pod(await cluster.job(model), 3, verdict)

    model = await cluster.phase(model, Phase.FAILED)
    assert reason(model) == "PublicationFailed"
    assert "tensor 3 ends behind the file" in str(find(model.status.conditions, "Ready"))  # type: ignore[union-attr]
    await cluster.gone(Secret, names.upload_secret(Key.of(model)), namespace)

    await cluster.annotate(model, retry="1")
    model = await cluster.phase(model, Phase.WAIT_FOR_UPLOAD)
    await upload.received(registry, names.repository(Key.of(model)), GGUF)
    model = await cluster.phase(model, Phase.PUBLISHING)
    await cluster.job(model, 2)
    await upload.published(registry, names.repository(Key.of(model)), GGUF)
    await cluster.phase(model, Phase.READY)


async def test_a_dead_worker_is_followed_by_another_attempt(
    cluster: Cluster, registry: RegistryClient
) -> None:
    model = await publishing(cluster, registry)

    await cluster.end_pod(await cluster.job(model), 137)

    await cluster.job(model, 2)
    seen = await cluster.get(model)
    assert seen.status
    assert seen.status.phase == Phase.PUBLISHING
    active = await transfers(registry, seen)
    assert names.publication_transfer(model.metadata.uid, 1, 1) not in active
    assert names.publication_transfer(model.metadata.uid, 1, 2) in active


@pytest.mark.parametrize("phase", [Phase.WAIT_FOR_UPLOAD, Phase.PUBLISHING, Phase.READY])
@pytest.mark.parametrize("kind", [Model, ClusterModel])
async def test_a_deletion_ends_in_every_phase(
    cluster: Cluster, registry: RegistryClient, namespace: str, kind: type[AnyModel], phase: Phase
) -> None:
    if phase is Phase.WAIT_FOR_UPLOAD:
        model = await cluster.phase(await cluster.make(kind, UPLOAD), phase)
    else:
        model = await (publishing if phase is Phase.PUBLISHING else made_ready)(cluster, registry, kind)
    key = Key.of(model)

    await cluster.delete(model)

    await cluster.gone(kind, model.metadata.name, model.metadata.namespace or None)
    assert await cluster.client.find(Secret, names.upload_secret(key), namespace) is None
    assert await cluster.client.find(Role, names.upload_role(key), namespace) is None
    assert await transfers(registry, model) == set()
    for tag in ("upload", "published"):
        with pytest.raises(NotFound):
            await registry.get_manifest(names.repository(key), tag)
    selector = f"{names.UID_LABEL}={model.metadata.uid}"

    async def no_jobs() -> bool:
        return await cluster.client.list(Job, namespace, label_selector=selector) == []

    await eventually(no_jobs)


async def test_a_corrected_source_starts_again_from_nothing(
    cluster: Cluster, registry: RegistryClient, namespace: str
) -> None:
    model = await publishing(cluster, registry)
    body: dict[str, Any] = {"spec": {"source": {"upload": None, "url": "https://huggingface.co/acme/llm"}}}
    await cluster.client.patch(Model, model.metadata.name, body, namespace=namespace)

    model = await cluster.phase(model, Phase.FAILED)
    assert reason(model) == "UnsupportedSource"
    assert model.status
    assert model.status.source
    assert model.status.source.resolved_type == "HuggingFace"
    assert await transfers(registry, model) == set()

    body = {"spec": {"source": {"upload": {}, "url": None}}}
    await cluster.client.patch(Model, model.metadata.name, body, namespace=namespace)
    model = await cluster.phase(model, Phase.WAIT_FOR_UPLOAD)
    with pytest.raises(NotFound):
        await registry.get_manifest(names.repository(Key.of(model)), "upload")


async def test_a_model_adopts_what_is_published_under_its_name(
    cluster: Cluster, registry: RegistryClient, namespace: str
) -> None:
    manifest = await upload.published(registry, f"models/{namespace}/restored", GGUF)

    model = await cluster.phase(await cluster.make(Model, UPLOAD, "restored"), Phase.READY)

    assert model.status
    assert model.status.artifact
    assert model.status.artifact.digest == manifest
    assert await cluster.events(model) == ["PublicationSucceeded"]


async def test_a_missing_blob_is_noticed_before_ready(cluster: Cluster, registry: RegistryClient) -> None:
    model = await publishing(cluster, registry)
    repository = names.repository(Key.of(model))
    other = upload.package(upload.tiny_gguf(b"never pushed"))
    await registry.push_blob(repository, other.config)

    with pytest.raises(NotFound):
        await registry.put_manifest(
            repository, "published", "application/vnd.oci.image.manifest.v1+json", other.manifest
        )

    seen = await cluster.get(model)
    assert seen.status
    assert seen.status.phase == Phase.PUBLISHING
