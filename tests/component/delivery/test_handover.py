"""From an annotated workload to a bound claim, against a real API server."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from lightkube.config.kubeconfig import KubeConfig

from aimodels.api.model import Model
from aimodels.delivery import claims, handover
from aimodels.delivery.names import RECLAIM_ANNOTATION, ROLE_LABEL, DeliveryKey
from aimodels.processes import uninstall
from kubekit.client import Client
from kubekit.errors import AlreadyExists, Unreachable
from kubekit.manager import Manager
from kubekit.resources import Deployment, Job, Namespace, PersistentVolume, PersistentVolumeClaim, Pod
from tests.kit.delivery import DIGEST, OTHER_DIGEST, copy_pods, delivering, end_pod
from tests.kit.eventually import eventually
from tests.kit.quota import limited, unlimited

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.kit.delivery import World

pytestmark = pytest.mark.cluster

REASON = "ai.deckhouse.io/model-delivery-blocked-reason"
MESSAGE = "ai.deckhouse.io/model-delivery-blocked-message"


async def reason_of(made: World, name: str) -> str:
    found = await made.client.get(Deployment, name, made.namespace)
    return found.metadata.annotations.get(REASON, "")


async def has_reason(made: World, name: str, reason: str) -> bool:
    return await reason_of(made, name) == reason


async def test_a_wanted_model_arrives_in_the_namespace(made: World) -> None:
    await made.model("gemma")
    await made.workload("app", model="gemma")
    async with delivering(made):
        claim = await made.bound("ai-model-gemma-1")
        await made.settled()
        volume = await made.volume(claim.spec.volume_name)
        assert volume.spec.claim_ref is not None
        assert volume.spec.claim_ref.uid == claim.metadata.uid
        assert volume.spec.persistent_volume_reclaim_policy == "Delete", "the bytes go with the claim"
        assert RECLAIM_ANNOTATION not in volume.metadata.annotations
        assert claim.spec.access_modes == ["ReadWriteMany"]
        assert claim.metadata.owner_references == []
        assert await made.client.list(Job, made.module_namespace) == []
        assert made.registry.allowed == {}
        (transfer,) = set(made.registry.revoked)
        assert transfer.startswith("copy-")


async def test_a_copy_is_allowed_exactly_what_it_needs(made: World) -> None:
    made.kubelet_works.clear()
    await made.model("gemma")
    await made.workload("app", model="gemma")
    async with delivering(made):
        (pod,) = await eventually(partial(copy_pods, made))
        ((transfer, spec),) = made.registry.allowed.items()
        assert spec.actions == ("pull",)
        assert spec.purpose == "copy"
        assert spec.digest == DIGEST
        assert spec.idle_seconds == 24 * 3600
        assert spec.repository == f"models/{made.namespace}/gemma"
        assert spec.service_account == f"{made.module_namespace}/ai-models-copy"
        assert pod.metadata.name.startswith(f"{spec.pod_prefix}-")
        assert pod.metadata.labels["module"] == "ai-models"
        assert transfer == spec.pod_prefix
        await eventually(partial(has_reason, made, "app", "SharedPVCMaterializerPending"))
        made.kubelet_works.set()
        await made.bound("ai-model-gemma-1")
        await eventually(partial(has_reason, made, "app", ""))


async def test_one_claim_serves_all_workloads_of_a_namespace(made: World) -> None:
    await made.model("gemma")
    for kind in ("Deployment", "StatefulSet", "DaemonSet", "CronJob"):
        await made.workload(f"app-{kind.lower()}", kind, model="gemma")
    async with delivering(made) as delivery:
        await made.bound("ai-model-gemma-1")
        await made.settled()
        assert [claim.metadata.name for claim in await made.claims()] == ["ai-model-gemma-1"]
        assert sorted(delivery.consumers("Model", made.namespace, "gemma")) == [
            f"CronJob {made.namespace}/app-cronjob",
            f"DaemonSet {made.namespace}/app-daemonset",
            f"Deployment {made.namespace}/app-deployment",
            f"StatefulSet {made.namespace}/app-statefulset",
        ]


async def test_a_model_that_becomes_ready_later_is_delivered_then(made: World) -> None:
    await made.workload("app", model="gemma")
    async with delivering(made):
        await eventually(partial(has_reason, made, "app", "SharedPVCMaterializerPending"))
        found = await made.client.get(Deployment, "app", made.namespace)
        assert "There is no Model gemma" in found.metadata.annotations[MESSAGE]
        await made.model("gemma", ready=False)
        await made.publish("gemma")
        await made.bound("ai-model-gemma-1")
        await eventually(partial(has_reason, made, "app", ""))


async def test_an_exhausted_quota_is_told_and_waited_for(made: World) -> None:
    await limited(made.client, made.namespace, {"requests.storage": "1Gi"})
    await made.model("gemma")
    await made.workload("app", model="gemma")
    async with delivering(made):
        await eventually(partial(has_reason, made, "app", "SharedPVCQuotaExceeded"))
        assert await made.fills() == [], "nothing is copied that could not be handed over"
        await unlimited(made.client, made.namespace)
        await made.bound("ai-model-gemma-1")


async def test_a_missing_class_is_told_and_waited_for(made: World) -> None:
    real, made.storage_class = made.storage_class, f"{made.storage_class}-later"
    await made.model("gemma")
    await made.workload("app", model="gemma")
    async with delivering(made):
        await eventually(partial(has_reason, made, "app", "SharedPVCStorageClassMissing"))
        await made.client.create(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": made.storage_class},
                "provisioner": "kubernetes.io/no-provisioner",
            }
        )
        await made.bound("ai-model-gemma-1")
    await made.client.request("DELETE", f"/apis/storage.k8s.io/v1/storageclasses/{real}")


async def test_a_volume_that_does_not_come_is_told(made: World) -> None:
    made.storage_works.clear()
    await made.model("gemma")
    await made.workload("app", model="gemma")
    async with delivering(made):
        await eventually(partial(has_reason, made, "app", "SharedPVCClaimPending"))
        made.storage_works.set()
        await made.bound("ai-model-gemma-1")


async def test_a_copy_that_cannot_be_done_says_why(made: World) -> None:
    made.kubelet_works.clear()
    await made.model("gemma")
    await made.workload("app", model="gemma")
    verdict = '{"reason":"SharedPVCClaimPending","message":"the volume is read-only"}'
    async with delivering(made):
        (pod,) = await eventually(partial(copy_pods, made))
        await end_pod(made, pod, "Failed", exit_code=3, message=verdict)
        await eventually(partial(has_reason, made, "app", "SharedPVCClaimPending"))

        async def told() -> bool:
            found = await made.client.get(Deployment, "app", made.namespace)
            return "the volume is read-only" in found.metadata.annotations[MESSAGE]

        await eventually(told)


async def test_at_most_so_many_copies_run_at_once(made: World) -> None:
    made.kubelet_works.clear()
    for number in range(4):
        await made.model(f"m-{number}")
    await made.workload("app", model="m-0,m-1,m-2,m-3")
    async with delivering(made, most_copies=2):

        async def two() -> bool:
            return len(await copy_pods(made)) == 2

        await eventually(two)
        assert len(await made.fills()) == 2
        made.kubelet_works.set()
        for number in range(4):
            await made.bound(f"ai-model-m-{number}-1")


async def test_a_place_is_free_again_after_every_copy(made: World) -> None:
    await made.workload("app", model="m-0,m-1,m-2")
    async with delivering(made, most_copies=1):
        for number in range(3):
            await made.model(f"m-{number}")
            await made.bound(f"ai-model-m-{number}-1")
            await made.settled()


async def test_the_claim_goes_with_the_last_who_needs_it(made: World) -> None:
    await made.model("gemma")
    await made.workload("one", model="gemma")
    await made.workload("two", "StatefulSet", model="gemma")
    async with delivering(made):
        claim = await made.bound("ai-model-gemma-1")
        await made.settled()
        await made.annotate(Deployment, "one", model=None)
        await made.client.delete(Deployment, "one", made.namespace)
        path = f"/apis/apps/v1/namespaces/{made.namespace}/statefulsets/two"
        assert await made.client.find(PersistentVolumeClaim, "ai-model-gemma-1", made.namespace)
        await made.client.request("DELETE", path)
        await made.gone("ai-model-gemma-1")

        async def released() -> bool:
            return (await made.volume(claim.spec.volume_name)).status.phase == "Released"

        await eventually(released)


async def test_the_claim_waits_for_a_pod_that_uses_it(made: World) -> None:
    await made.model("gemma")
    await made.workload("app", "CronJob", model="gemma")
    user = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "user", "namespace": made.namespace},
        "spec": {
            "containers": [{"name": "app", "image": "i"}],
            "volumes": [{"name": "m", "persistentVolumeClaim": {"claimName": "ai-model-gemma-1"}}],
        },
    }
    await made.client.create(user)
    async with delivering(made) as delivery:
        await made.bound("ai-model-gemma-1")
        await made.settled()
        await made.client.request("DELETE", f"/apis/batch/v1/namespaces/{made.namespace}/cronjobs/app")

        async def only_the_pod() -> bool:
            return delivery.consumers("Model", made.namespace, "gemma") == (f"Pod {made.namespace}/user",)

        await eventually(only_the_pod)
        assert (await made.bound("ai-model-gemma-1")).metadata.deletion_timestamp is None
        await made.client.delete(Pod, "user", made.namespace)
        await made.gone("ai-model-gemma-1")
        assert delivery.consumers("Model", made.namespace, "gemma") == ()


async def test_a_fill_that_nobody_wants_any_more_leaves_nothing(made: World) -> None:
    made.kubelet_works.clear()
    await made.model("gemma")
    await made.workload("app", model="gemma")
    async with delivering(made):
        await eventually(partial(copy_pods, made))
        (transfer,) = made.registry.allowed
        await made.client.delete(Deployment, "app", made.namespace)
        await made.settled()
        assert await made.client.list(Job, made.module_namespace) == []
        assert set(made.registry.revoked) == {transfer}
        assert await made.claims() == []


async def test_a_deleted_model_takes_its_claim_along(made: World) -> None:
    await made.model("gemma")
    await made.workload("app", model="gemma")
    async with delivering(made):
        await made.bound("ai-model-gemma-1")
        await made.settled()
        await made.client.delete(Model, "gemma", made.namespace)
        await made.gone("ai-model-gemma-1")
        await eventually(partial(has_reason, made, "app", "SharedPVCMaterializerPending"))


async def test_a_replaced_model_gets_a_new_claim(made: World) -> None:
    await made.model("gemma")
    await made.workload("app", model="gemma")
    holder = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "old", "namespace": made.namespace},
        "spec": {
            "nodeName": "nowhere",
            "containers": [{"name": "app", "image": "i"}],
            "volumes": [{"name": "m", "persistentVolumeClaim": {"claimName": "ai-model-gemma-1"}}],
        },
    }
    async with delivering(made):
        await made.bound("ai-model-gemma-1")
        await made.settled()
        await made.client.create(holder)
        await made.client.delete(Model, "gemma", made.namespace)

        async def leaving() -> bool:
            found = await made.client.find(PersistentVolumeClaim, "ai-model-gemma-1", made.namespace)
            return found is not None and found.metadata.deleting

        await eventually(leaving)
        await made.model("gemma", digest=OTHER_DIGEST)
        second = await made.bound("ai-model-gemma-2")
        assert second.metadata.annotations["ai.deckhouse.io/artifact-digest"] == OTHER_DIGEST
    await made.client.request(
        "DELETE", f"/api/v1/namespaces/{made.namespace}/pods/old", params={"gracePeriodSeconds": "0"}
    )


async def test_a_namespace_that_is_deleted_is_an_end(made: World) -> None:
    made.kubelet_works.clear()
    await made.model("gemma")
    await made.workload("app", model="gemma")
    async with delivering(made):
        await eventually(partial(copy_pods, made))
        await made.client.delete(Namespace, made.namespace)
        made.kubelet_works.set()
        await made.settled()

        async def no_namespace() -> bool:
            return await made.client.find(Namespace, made.namespace) is None

        await eventually(no_namespace)
    await made.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": made.namespace}})


async def test_a_foreign_claim_of_that_name_is_told_and_left_alone(made: World) -> None:
    foreign = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "ai-model-gemma-1", "namespace": made.namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    await made.client.create(foreign)
    await made.model("gemma")
    await made.workload("app", model="gemma")
    async with delivering(made):
        await eventually(partial(has_reason, made, "app", "SharedPVCClaimPending"))
        assert await made.fills() == []
    assert await made.client.find(PersistentVolumeClaim, "ai-model-gemma-1", made.namespace)


async def test_a_foreign_claim_that_came_during_the_copy_is_not_given_the_volume(made: World) -> None:
    made.kubelet_works.clear()
    await made.model("gemma")
    await made.workload("app", model="gemma")
    async with delivering(made):
        await eventually(partial(copy_pods, made))
        foreign = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "ai-model-gemma-1", "namespace": made.namespace},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        await made.client.create(foreign)
        made.kubelet_works.set()
        await eventually(partial(has_reason, made, "app", "SharedPVCClaimPending"))
        (fill,) = await made.fills()
        volume = await made.volume(fill.spec.volume_name)
        assert volume.spec.claim_ref is not None
        assert volume.spec.claim_ref.uid == fill.metadata.uid
        await made.client.delete(PersistentVolumeClaim, "ai-model-gemma-1", made.namespace)
        await made.bound("ai-model-gemma-1")
        await made.settled()


class DyingClient(Client):
    """A client whose process dies after so many writes: every later call fails, as after kill -9."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.left: int | None = None
        self.killed = False

    async def request(self, method: str, path: str, **named: Any) -> bytes:
        writes = (
            method != "GET" and not path.endswith("/events") and "dryRun" not in (named.get("params") or {})
        )
        if writes and self.left is not None:
            if self.left == 0:
                self.killed = True
                raise Unreachable("killed")
            self.left -= 1
        return await super().request(method, path, **named)


@pytest.fixture
async def dying(control_plane: Path) -> AsyncIterator[DyingClient]:
    config = KubeConfig.from_file(control_plane).get()
    assert config is not None
    async with DyingClient(config) as client:
        yield client


@pytest.mark.parametrize("writes", range(12))
async def test_a_kill_between_any_two_steps_is_made_up_for(
    made: World, writes: int, dying: DyingClient
) -> None:
    await made.model("gemma")
    await made.workload("app", model="gemma")
    dying.left = writes
    async with delivering(made, manager=Manager(dying)):

        async def dead_or_done() -> bool:
            return dying.killed or (bool(await made.claims()) and not await made.fills())

        await eventually(dead_or_done)
    async with delivering(made):
        claim = await made.bound("ai-model-gemma-1")
        await made.settled()
        await eventually(partial(has_reason, made, "app", ""))
        volume = await made.volume(claim.spec.volume_name)
        assert volume.spec.persistent_volume_reclaim_policy == "Delete"
        assert await made.client.list(Job, made.module_namespace) == []
        assert made.registry.allowed == {}


@pytest.mark.parametrize("writes", range(3))
async def test_a_hand_over_that_an_uninstallation_meets_is_ended(
    made: World, writes: int, dying: DyingClient
) -> None:
    """Killed before the volume was pointed at the namespace, before its claim was made, and after that."""
    fill = await _filled(made)
    dying.left = writes
    with suppress(Unreachable):
        await handover.hand_over(dying, fill)

    assert await uninstall.conclude_hand_overs(made.client, made.module_namespace) == []

    volume = await made.volume(fill.volume)
    assert RECLAIM_ANNOTATION not in volume.metadata.annotations
    assert volume.spec.persistent_volume_reclaim_policy == "Delete"
    if writes < 2:
        assert await made.claims() == []
        assert await _filled(made) == fill
    else:
        claim = await made.bound("ai-model-gemma-1")
        assert claim.spec.volume_name == fill.volume
    if writes == 1:
        await _taken_up_again(made)


async def _taken_up_again(made: World) -> None:
    """Have a later installation go on with what an uninstallation took back."""
    await made.model("gemma")
    await made.workload("app", model="gemma")
    async with delivering(made):
        await made.bound("ai-model-gemma-1")
        await made.settled()


async def _filled(made: World) -> claims.Claim:
    """Return a claim that is filled for the namespace, with its volume."""
    target = DeliveryKey(made.namespace, "Model", "gemma")
    contents = claims.Contents(target, 1, DIGEST, made.storage_class, "1Gi")
    with suppress(AlreadyExists):
        await made.client.create(claims.fill_claim(contents, made.module_namespace))

    async def bound() -> PersistentVolumeClaim | None:
        (found,) = await made.fills()
        return found if found.bound else None

    fill = claims.read(await eventually(bound), made.module_namespace)
    assert fill is not None
    return fill


async def test_a_volume_whose_claims_are_gone_is_named_by_an_uninstallation(made: World) -> None:
    fill = await _filled(made)
    name, kept = fill.volume, {"persistentVolumeReclaimPolicy": "Retain", "claimRef": None}
    marks = {"labels": {ROLE_LABEL: "delivered"}, "annotations": {RECLAIM_ANNOTATION: "Delete"}}
    made.storage_works.clear()
    await made.client.delete(PersistentVolumeClaim, fill.name, made.module_namespace)
    await made.client.patch(PersistentVolume, name, {"metadata": marks, "spec": kept})
    await made.settled()

    assert await uninstall.conclude_hand_overs(made.client, made.module_namespace) == [name]
    assert (await made.volume(name)).spec.persistent_volume_reclaim_policy == "Delete"
