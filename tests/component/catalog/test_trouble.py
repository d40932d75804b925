"""Outages, full houses, strangers in the way, namespaces that go: what a model says and what stays whole."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from aimodels.api.model import AnyModel, Model
from aimodels.api.reasons import ConditionType, ModelReason, Phase
from aimodels.catalog import attempts, names, publications, registry
from aimodels.catalog.names import Key
from aimodels.jobs import observed
from kubekit.client import Client, connect
from kubekit.conditions import find
from kubekit.errors import Forbidden
from kubekit.resources import Deployment, Job, Namespace, Role, Secret
from opskit import metrics
from opskit.retry import Backoff
from tests.kit import upload
from tests.kit.catalog import Cluster, running_catalog
from tests.kit.controlplane import fresh_namespace
from tests.kit.delivery import workload
from tests.kit.eventually import eventually
from tests.kit.quota import limited, unlimited

if TYPE_CHECKING:
    from pathlib import Path

    from modelio.registry import RegistryClient, TransferProgress
    from tests.kit.dmcr import Dmcr

pytestmark = pytest.mark.asyncio(loop_scope="module")

UPLOAD: dict[str, Any] = {"upload": {}}
GGUF = upload.tiny_gguf()


@pytest.fixture(autouse=True)
def _outages_are_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("aimodels.catalog.registry", "aimodels.catalog.reconcile"):
        monkeypatch.setattr(f"{module}.TOLD_AFTER", 0.5)
    assert registry.TOLD_AFTER


def says(model: AnyModel, type_: ConditionType, reason: ModelReason) -> bool:
    found = find(model.status.conditions, type_) if model.status else None
    return found is not None and found.reason == reason


def waits_for_storage(model: AnyModel) -> bool:
    return says(model, ConditionType.READY, ModelReason.STORAGE_UNAVAILABLE)


async def test_an_outage_of_the_registry_is_told_on_every_waiting_model_and_passes(
    cluster: Cluster, dmcr: Dmcr, registry: RegistryClient
) -> None:
    waiting = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
    moving = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
    await upload.received(registry, names.repository(Key.of(moving)), GGUF)
    moving = await cluster.phase(moving, Phase.PUBLISHING)
    await cluster.job(moving)

    await dmcr.kill()
    for model, phase in ((waiting, Phase.WAIT_FOR_UPLOAD), (moving, Phase.PUBLISHING)):
        seen = await cluster.until(model, waits_for_storage)
        assert seen.status
        assert seen.status.phase == phase
        assert says(seen, ConditionType.STORAGE_AVAILABLE, ModelReason.STORAGE_UNAVAILABLE)
    fresh = await cluster.until(await cluster.make(Model, UPLOAD), waits_for_storage)
    assert fresh.status
    assert fresh.status.phase == Phase.PENDING

    await dmcr.start()
    for model in (waiting, fresh):
        await cluster.until(
            model, partial(says, type_=ConditionType.READY, reason=ModelReason.WAITING_FOR_USER_UPLOAD)
        )
    await cluster.until(moving, lambda seen: not waits_for_storage(seen))
    again = await cluster.get(moving)
    assert again.status
    assert again.status.publication
    assert again.status.publication.attempt == 1, "an outage is nobody's failed attempt"


async def test_a_deletion_waits_for_the_registry_and_says_so(cluster: Cluster, dmcr: Dmcr) -> None:
    model = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
    await dmcr.kill()

    await cluster.delete(model)
    seen = await cluster.until(model, waits_for_storage)
    assert seen.status
    assert seen.status.phase == Phase.DELETING

    await dmcr.start()
    await cluster.gone(Model, model.metadata.name, model.metadata.namespace)


async def test_a_full_house_shows_the_queue_and_lets_the_next_one_in(
    control_plane: Path, namespace: str, dmcr: Dmcr, registry: RegistryClient
) -> None:
    async with running_catalog(control_plane, namespace, dmcr.url, max_publications=1) as cluster:
        models = []
        for _ in range(3):
            model = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
            await upload.received(registry, names.repository(Key.of(model)), GGUF)
            models.append(await cluster.phase(model, Phase.PUBLISHING))
        first, second, third = models
        await cluster.job(first)
        await cluster.until(second, _stands(1))
        await cluster.until(third, _stands(2))
        assert len(await cluster.client.list(Job, namespace)) == 1

        await upload.published(registry, names.repository(Key.of(first)), GGUF)
        await cluster.phase(first, Phase.READY)

        await cluster.job(second)
        await cluster.until(third, _stands(1))


def _stands(position: int) -> Any:
    def holds(model: AnyModel) -> bool:
        transfer = model.status.transfer if model.status else None
        return transfer is not None and transfer.queue_position == position

    return holds


async def test_somebody_elses_secret_is_never_written(cluster: Cluster, namespace: str) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "ai-model-upload-taken", "namespace": namespace},
        "data": {},
    }
    await cluster.client.create(manifest)
    model = await cluster.make(Model, UPLOAD, "taken")

    model = await cluster.phase(model, Phase.PENDING)
    assert model.status
    assert "is not ours" in model.status.conditions[-1].message
    secret = await cluster.client.get(Secret, "ai-model-upload-taken", namespace)
    assert secret.data == {}
    assert secret.metadata.owner_references == []


async def test_somebody_elses_role_is_never_written(cluster: Cluster, namespace: str) -> None:
    name = names.upload_role(Key("Model", namespace, "taken"))
    manifest = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name, "namespace": namespace},
        "rules": [],
    }
    await cluster.client.create(manifest)
    model = await cluster.phase(await cluster.make(Model, UPLOAD, "taken"), Phase.PENDING)

    assert model.status
    assert f"Role {namespace}/{name} is not ours" in model.status.conditions[-1].message
    role = await cluster.client.get(Role, name, namespace)
    assert not role.rules
    assert role.metadata.owner_references == []
    secret = names.upload_secret(Key.of(model))
    assert await cluster.client.find(Secret, secret, namespace) is None, (
        "no token is made that nobody can read"
    )


async def test_a_received_file_that_is_gone_fails_its_model_and_a_wish_asks_for_it_again(
    cluster: Cluster, registry: RegistryClient
) -> None:
    model = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
    repository = names.repository(Key.of(model))
    await upload.received(registry, repository, GGUF)
    await cluster.job(await cluster.phase(model, Phase.PUBLISHING))

    await registry.delete_manifest(repository, names.UPLOAD_TAG)
    failed = await cluster.phase(model, Phase.FAILED)
    assert says(failed, ConditionType.READY, ModelReason.PUBLICATION_FAILED)
    assert not says(failed, ConditionType.STORAGE_AVAILABLE, ModelReason.STORAGE_UNAVAILABLE)

    await cluster.annotate(model, retry="1")
    await cluster.phase(model, Phase.WAIT_FOR_UPLOAD)


async def test_a_job_that_a_quota_refuses_is_told_and_holds_no_place(
    control_plane: Path, namespace: str, dmcr: Dmcr, registry: RegistryClient
) -> None:
    async with running_catalog(control_plane, namespace, dmcr.url, max_publications=1) as cluster:
        model = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
        await limited(cluster.client, namespace, {"count/jobs.batch": "0"})
        await upload.received(registry, names.repository(Key.of(model)), GGUF)

        told = await cluster.until(model, _names_the_quota)
        assert says(told, ConditionType.PROGRESSING, ModelReason.PENDING)
        assert told.status
        assert told.status.transfer
        assert told.status.transfer.queue_position is None

        await cluster.annotate(model, retry="1")
        await cluster.until(model, lambda seen: seen.status is not None and seen.status.observed_retry == "1")
        refused = _refused_creations("403")
        await cluster.annotate(model, nudge="1")
        other = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
        assert _refused_creations("403") == refused, "one wish is tried once"
        await cluster.delete(other)

        await unlimited(cluster.client, namespace)
        await cluster.annotate(model, retry="2")
        await cluster.job(model)


async def test_corrected_settings_replace_a_job_that_waits_for_a_node(
    control_plane: Path,
    namespace: str,
    dmcr: Dmcr,
    registry: RegistryClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("TOLD_AFTER", "MOST_HELD"):
        monkeypatch.setattr(observed, name, 0.0)
    monkeypatch.setattr(publications, "_LOOK_FOR_POD", 0.2)
    wrong = {"node_selector": {"pool": "modles"}}
    async with running_catalog(control_plane, namespace, dmcr.url, keep=True, **wrong) as cluster:
        model = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
        await upload.received(registry, names.repository(Key.of(model)), GGUF)
        await cluster.job(await cluster.phase(model, Phase.PUBLISHING))
        await cluster.until(model, lambda seen: "no nodes available" in _ready_text(seen))
    async with running_catalog(control_plane, namespace, dmcr.url) as cluster:
        job = await cluster.job(model, 2)
        assert "nodeSelector" not in job.spec.template["spec"]
        await upload.published(registry, names.repository(Key.of(model)), GGUF)
        await cluster.phase(model, Phase.READY)


async def test_a_pod_that_a_quota_refuses_or_that_has_no_node_is_told_in_the_clusters_words(
    control_plane: Path,
    namespace: str,
    dmcr: Dmcr,
    registry: RegistryClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(observed, "TOLD_AFTER", 0.0)
    monkeypatch.setattr(publications, "_LOOK_FOR_POD", 0.2)
    async with running_catalog(control_plane, namespace, dmcr.url) as cluster:
        model = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
        await limited(cluster.client, namespace, {"pods": "0"})
        await upload.received(registry, names.repository(Key.of(model)), GGUF)
        told = await cluster.until(model, _names_the_quota)
        assert says(told, ConditionType.PROGRESSING, ModelReason.PENDING)
        assert told.status
        assert told.status.phase == Phase.PUBLISHING

        await unlimited(cluster.client, namespace)
        await cluster.until(model, lambda seen: "no nodes available" in _ready_text(seen), within=40.0)


async def test_publications_whose_pods_do_not_run_take_turns(
    control_plane: Path,
    namespace: str,
    dmcr: Dmcr,
    registry: RegistryClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("TOLD_AFTER", "MOST_HELD"):
        monkeypatch.setattr(observed, name, 0.0)
    monkeypatch.setattr(publications, "_LOOK_FOR_POD", 0.2)
    async with running_catalog(control_plane, namespace, dmcr.url, max_publications=1) as cluster:
        first, second = [
            await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD) for _ in range(2)
        ]
        await upload.received(registry, names.repository(Key.of(first)), GGUF)
        await cluster.job(await cluster.phase(first, Phase.PUBLISHING))
        await upload.received(registry, names.repository(Key.of(second)), GGUF)
        await cluster.job(second)
        assert len(await cluster.client.list(Job, namespace)) == 1, "one place is one place"
        told = await cluster.until(first, lambda seen: "no nodes available" in _ready_text(seen))
        assert told.status
        assert told.status.publication
        assert told.status.publication.attempt == 2

        await cluster.job(first, 2)
        await upload.published(registry, names.repository(Key.of(first)), GGUF)
        await upload.published(registry, names.repository(Key.of(second)), GGUF)
        for model in (first, second):
            await cluster.phase(model, Phase.READY)


async def test_the_place_of_one_that_pauses_is_taken_at_once(
    control_plane: Path,
    namespace: str,
    dmcr: Dmcr,
    registry: RegistryClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attempts, "_BACKOFF", Backoff(first=50.0, most=50.0, jitter=0.0))
    async with running_catalog(control_plane, namespace, dmcr.url, max_publications=1) as cluster:
        first, second = [
            await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD) for _ in range(2)
        ]
        await upload.received(registry, names.repository(Key.of(first)), GGUF)
        job = await cluster.job(await cluster.phase(first, Phase.PUBLISHING))
        await upload.received(registry, names.repository(Key.of(second)), GGUF)
        await cluster.until(second, lambda seen: "number 1 in the queue" in _ready_text(seen))
        await cluster.end_pod(job, 1)
        await cluster.job(second)


def _ready_text(model: AnyModel) -> str:
    ready = find(model.status.conditions, ConditionType.READY) if model.status else None
    return ready.message if ready is not None else ""


def _names_the_quota(model: AnyModel) -> bool:
    return "exceeded quota" in _ready_text(model)


async def test_a_deleted_secret_is_made_again_with_another_token(cluster: Cluster, namespace: str) -> None:
    model = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
    name = names.upload_secret(Key.of(model))
    first = await cluster.client.get(Secret, name, namespace)

    await cluster.client.delete(Secret, name, namespace)
    await cluster.annotate(model, nudge="1")

    async def again() -> Secret | None:
        return await cluster.client.find(Secret, name, namespace)

    second = await eventually(again)
    assert second.data["token"] != first.data["token"]
    assert second.data["url"] == first.data["url"], "an upload on its way goes on"


async def test_a_secret_with_an_old_authority_gets_the_present_one_and_keeps_its_token(
    cluster: Cluster, namespace: str
) -> None:
    model = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
    name = names.upload_secret(Key.of(model))
    first = await cluster.client.get(Secret, name, namespace)
    assert b"BEGIN CERTIFICATE" in first.data["ca.crt"]

    await cluster.client.patch(Secret, name, {"data": {"ca.crt": "b2xk"}}, namespace=namespace)
    await cluster.annotate(model, nudge="1")

    async def renewed() -> bool:
        return (await cluster.client.get(Secret, name, namespace)).data == first.data

    await eventually(renewed)


async def test_an_upload_that_the_registry_lost_gets_a_secret_of_its_own_age(
    cluster: Cluster, namespace: str, registry: RegistryClient
) -> None:
    model = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
    name = names.upload_secret(Key.of(model))
    first = await cluster.client.get(Secret, name, namespace)
    (lost,) = [one for one in await registry.list_transfers() if names.uid_of(one.id) == model.metadata.uid]

    await registry.revoke_transfer(lost.id)

    async def another() -> Secret | None:
        found = await cluster.client.find(Secret, name, namespace)
        return found if found and found.data["url"] != first.data["url"] else None

    second = await eventually(another)
    assert second.metadata.uid != first.metadata.uid, "an upload lapses by the age of its Secret"


async def test_a_job_that_goes_slowly_is_followed_by_another_one(
    cluster: Cluster, namespace: str, registry: RegistryClient
) -> None:
    model = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
    await upload.received(registry, names.repository(Key.of(model)), GGUF)
    job = await cluster.job(await cluster.phase(model, Phase.PUBLISHING))
    name, held = job.metadata.name, {"metadata": {"finalizers": ["example.com/slow"]}}
    await cluster.client.patch(Job, name, held, namespace=namespace)
    refused = _refused_creations()

    await cluster.client.delete(Job, name, namespace)

    async def tried_in_vain() -> bool:
        return _refused_creations() > refused

    await eventually(tried_in_vain)
    await cluster.client.patch(Job, name, {"metadata": {"finalizers": None}}, namespace=namespace)

    async def another() -> bool:
        found = await cluster.client.find(Job, name, namespace)
        return found is not None and found.metadata.uid != job.metadata.uid

    await eventually(another)


def _refused_creations(code: str = "409") -> float:
    """Return how often an object could not be made, usually because there is one of its name."""
    labels = {"method": "POST", "code": code}
    return metrics.registry().get_sample_value("d8_ai_models_kube_requests_total", labels) or 0.0


async def test_a_namespace_can_be_deleted_with_models_in_every_phase(
    control_plane: Path, cluster: Cluster, registry: RegistryClient
) -> None:
    with fresh_namespace(control_plane) as going:
        other = Cluster(cluster.client, going)
        waiting = await other.phase(await other.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
        moving = await other.phase(await other.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
        await upload.received(registry, names.repository(Key.of(moving)), GGUF)
        await other.phase(moving, Phase.PUBLISHING)

        await cluster.client.delete(Namespace, going)
        await other.gone(Model, waiting.metadata.name, going)
        await other.gone(Model, moving.metadata.name, going)
        await other.gone(Namespace, going)
        await cluster.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": going}})
    assert await _transfers(registry, waiting, moving) == []


async def test_a_model_in_use_waits_with_the_names_of_its_users_and_goes_when_forced(
    control_plane: Path, cluster: Cluster, registry: RegistryClient
) -> None:
    with fresh_namespace(control_plane) as users:
        team = Cluster(cluster.client, users)
        await upload.published(registry, names.repository(Key("Model", users, "llm")), GGUF)
        model = await team.phase(await team.make(Model, UPLOAD, "llm"), Phase.READY)
        await cluster.client.create(workload(users, "app", model="llm"))

        async def seen() -> bool:
            found = await cluster.client.get(Deployment, "app", users)
            return "ai.deckhouse.io/model-delivery-blocked-reason" in found.metadata.annotations

        await eventually(seen)
        await team.delete(model)
        waits = await team.until(model, partial(says, type_=ConditionType.READY, reason=ModelReason.IN_USE))
        assert f"Deployment {users}/app" in _ready_text(waits)
        assert "ai.deckhouse.io/force-delete" in _ready_text(waits), "the next step"

        await team.annotate(model, force_delete="true")
        await team.gone(Model, "llm", users)
        await cluster.client.delete(Deployment, "app", users)


async def test_a_removal_that_is_refused_says_by_what(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
    real = Client.delete

    async def refused(self: Client, kind: Any, *rest: Any, **named: Any) -> bool:
        if kind is Secret:
            raise Forbidden(403, "Forbidden", "secrets are held by a policy")
        return await real(self, kind, *rest, **named)

    monkeypatch.setattr(Client, "delete", refused)
    await cluster.delete(model)
    told = await cluster.until(model, lambda seen: "held by a policy" in _ready_text(seen))
    assert told.status
    assert told.status.phase == Phase.DELETING
    monkeypatch.setattr(Client, "delete", real)
    await cluster.gone(Model, model.metadata.name, model.metadata.namespace)


async def test_a_restarted_controller_goes_on_where_the_other_one_was(
    control_plane: Path, namespace: str, dmcr: Dmcr, registry: RegistryClient
) -> None:
    async with running_catalog(control_plane, namespace, dmcr.url, keep=True) as cluster:
        waiting = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
        moving = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
        await upload.received(registry, names.repository(Key.of(moving)), GGUF)
        await cluster.job(await cluster.phase(moving, Phase.PUBLISHING))
        secret = names.upload_secret(Key.of(waiting))
        token = (await cluster.client.get(Secret, secret, namespace)).data["token"]

    await upload.published(registry, names.repository(Key.of(moving)), GGUF)
    async with running_catalog(control_plane, namespace, dmcr.url) as cluster:
        await cluster.phase(moving, Phase.READY)
        assert (await cluster.client.get(Secret, secret, namespace)).data["token"] == token

        async def revoked() -> bool:
            return [one.purpose for one in await _transfers(registry, waiting, moving)] == ["upload"]

        await eventually(revoked)


async def test_an_upload_of_a_kind_not_served_is_looked_at_by_a_newer_version_only(
    control_plane: Path, namespace: str, dmcr: Dmcr, registry: RegistryClient
) -> None:
    async with running_catalog(control_plane, namespace, dmcr.url, keep=True) as cluster:
        model = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
        await upload.received(registry, names.repository(Key.of(model)), GGUF)
        job = await cluster.job(await cluster.phase(model, Phase.PUBLISHING))
        await cluster.end_pod(job, 3, '{"reason":"UnsupportedSource","message":"No zip yet."}')
        failed = await cluster.until(await cluster.phase(model, Phase.FAILED), _has_no_upload)

    async with running_catalog(control_plane, namespace, dmcr.url, keep=True) as cluster:
        other = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
        assert (await cluster.get(model)).status == failed.status, "whoever was listed first was looked at"
        await cluster.delete(other)
    async with running_catalog(control_plane, namespace, dmcr.url, image="ai-models:newer") as cluster:
        await cluster.job(model, attempt=2)


def _has_no_upload(model: AnyModel) -> bool:
    return model.status is not None and model.status.upload is None


async def test_what_belongs_to_no_model_is_swept(
    control_plane: Path, namespace: str, dmcr: Dmcr, registry: RegistryClient
) -> None:
    async with running_catalog(control_plane, namespace, dmcr.url, keep=True) as cluster:
        kept = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
        lost = await cluster.phase(await cluster.make(Model, UPLOAD), Phase.WAIT_FOR_UPLOAD)
        await upload.received(registry, names.repository(Key.of(lost)), GGUF)
        job = await cluster.job(await cluster.phase(lost, Phase.PUBLISHING))
    await torn_away(control_plane, lost)

    async with running_catalog(control_plane, namespace, dmcr.url) as cluster:
        await cluster.gone(Job, job.metadata.name, namespace)

        async def swept() -> bool:
            left = await _transfers(registry, kept, lost)
            return {names.uid_of(one.id) for one in left} == {kept.metadata.uid}

        await eventually(swept)


async def _transfers(registry: RegistryClient, *models: AnyModel) -> list[TransferProgress]:
    """Return the transfers of some models; a model that another test has left may have one too."""
    ours = {model.metadata.uid for model in models}
    return [one for one in await registry.list_transfers() if names.uid_of(one.id) in ours]


async def torn_away(control_plane: Path, model: AnyModel) -> None:
    """Let the object go without its clean-up, as somebody in a hurry does."""
    async with connect(control_plane) as client:
        await client.patch(
            Model,
            model.metadata.name,
            {"metadata": {"finalizers": None}},
            namespace=model.metadata.namespace,
        )
        await client.delete(Model, model.metadata.name, model.metadata.namespace)
