"""The webhook as the API server asks it, and the controller that makes up for one that was away."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from aimodels.delivery.names import MARKER_ANNOTATION
from aimodels.delivery.views import WORKLOADS
from kubekit.resources import CronJob, DaemonSet, Deployment, Event, Job, Pod, StatefulSet
from tests.kit.delivery import DIGEST, OTHER_DIGEST, admitting, delivering, workload
from tests.kit.eventually import eventually
from tests.kit.vectors import cases

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.kit.delivery import World

pytestmark = pytest.mark.cluster

KINDS: dict[str, Any] = {
    "Deployment": Deployment,
    "StatefulSet": StatefulSet,
    "DaemonSet": DaemonSet,
    "CronJob": CronJob,
}
REASON = "ai.deckhouse.io/model-delivery-blocked-reason"


async def template_of(made: World, kind: str, name: str) -> Mapping[str, Any]:
    found = await made.client.get(KINDS[kind], name, made.namespace)
    template: Mapping[str, Any] = found.pod_template
    return template


def claims_in(template: Mapping[str, Any]) -> list[str]:
    volumes = template["spec"].get("volumes", [])
    return [volume["persistentVolumeClaim"]["claimName"] for volume in volumes]


async def events_of(made: World, name: str) -> list[str]:
    found = await made.client.list(Event, made.namespace)
    return [event.reason for event in found if event.involved_object.name == name]


@pytest.mark.parametrize("case", cases("delivery-and-publish.json", "workload-kind"))
async def test_which_kinds_get_models(made: World, case: dict[str, Any]) -> None:
    kind = case["input"]["kind"]
    if "supported" in case["expected"]:
        assert (kind in {struct.KIND.name for struct in WORKLOADS}) == case["expected"]["supported"]
    else:
        manifest = workload(made.namespace, "app", model="a")
        spec = manifest["spec"]["template"]["spec"]
        spec["volumes"] = [{"name": "mine", "emptyDir": {}}]
        spec["containers"][0]["volumeMounts"] = [{"name": "mine", "mountPath": case["input"]["mount"]}]
        answer = await made.client.create(manifest)
        assert MARKER_ANNOTATION not in answer["spec"]["template"]["metadata"].get("annotations", {})
        async with delivering(made):
            await eventually(partial(has_reason, made, "app", case["expected"]["blocked_reason"]))
            await eventually(partial(has_event, made, "app", "ModelDeliveryBlocked"))


async def has_reason(made: World, name: str, reason: str) -> bool:
    found = await made.client.get(Deployment, name, made.namespace)
    return found.metadata.annotations.get(REASON, "") == reason


async def has_event(made: World, name: str, event: str) -> bool:
    return event in await events_of(made, name)


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_is_changed_when_it_is_made_and_changed_back(made: World, kind: str) -> None:
    await made.workload("app", kind)
    plain = await template_of(made, kind, "app")
    await made.annotate(KINDS[kind], "app", model="gemma", clustermodel="bge-m3")
    changed = await template_of(made, kind, "app")
    assert claims_in(changed) == ["ai-model-gemma-1", "ai-clustermodel-bge-m3-1"]
    (container,) = changed["spec"]["containers"]
    variables = {one["name"]: one["value"] for one in container["env"]}
    assert variables["AI_MODELS_MODELS_DIR"] == "/data/modelcache/models"
    assert json.loads(variables["AI_MODELS_MODELS"]) == [
        {"name": "gemma", "path": "/data/modelcache/models/gemma"},
        {"name": "bge-m3", "path": "/data/modelcache/models/bge-m3"},
    ]
    await made.annotate(KINDS[kind], "app", clustermodel=None)
    assert claims_in(await template_of(made, kind, "app")) == ["ai-model-gemma-1"]
    await made.annotate(KINDS[kind], "app", model=None)
    assert await template_of(made, kind, "app") == plain


async def test_a_write_that_changes_nothing_rolls_nothing(made: World) -> None:
    await made.workload("app", model="gemma")
    before = await made.client.get(Deployment, "app", made.namespace)
    await made.client.patch(Deployment, "app", {}, namespace=made.namespace)
    await made.client.patch(Deployment, "app", {"metadata": {"labels": {"a": "b"}}}, namespace=made.namespace)
    after = await made.client.get(Deployment, "app", made.namespace)
    assert after.metadata.generation == before.metadata.generation


async def test_an_author_who_applies_again_keeps_the_models(made: World) -> None:
    manifest = workload(made.namespace, "app", model="gemma")
    apply = partial(
        made.client.patch,
        Deployment,
        "app",
        namespace=made.namespace,
        content="apply",
        field_manager="kubectl",
        force=True,
    )
    await apply(body=manifest)
    before = await made.client.get(Deployment, "app", made.namespace)
    await apply(body=manifest)
    after = await made.client.get(Deployment, "app", made.namespace)
    assert claims_in(after.pod_template) == ["ai-model-gemma-1"]
    assert after.metadata.generation == before.metadata.generation


async def test_a_workload_that_the_webhook_missed_is_sent_through_it(bare: World, tmp_path: Path) -> None:
    await bare.model("gemma")
    await bare.workload("app", model="gemma")
    assert claims_in(await template_of(bare, "Deployment", "app")) == []
    async with delivering(bare):
        await eventually(partial(has_reason, bare, "app", "SharedPVCMaterializerPending"))
        async with admitting(bare, tmp_path):

            async def mounted() -> bool:
                return claims_in(await template_of(bare, "Deployment", "app")) == ["ai-model-gemma-1"]

            await eventually(mounted)
            await bare.bound("ai-model-gemma-1")
            await eventually(partial(has_reason, bare, "app", ""))
            await eventually(partial(has_event, bare, "app", "ModelDeliveryApplied"))


async def test_a_name_used_twice_is_told_and_changes_nothing(made: World) -> None:
    await made.workload("app", model="a,b", clustermodel="b")
    assert claims_in(await template_of(made, "Deployment", "app")) == []
    async with delivering(made):
        await eventually(partial(has_reason, made, "app", "DuplicateModelName"))
        await eventually(partial(has_event, made, "app", "InvalidModelReference"))
        await made.annotate(Deployment, "app", model="a", clustermodel="b")
        await eventually(partial(has_reason, made, "app", "SharedPVCMaterializerPending"))
        assert claims_in(await template_of(made, "Deployment", "app")) == [
            "ai-model-a-1",
            "ai-clustermodel-b-1",
        ]


async def test_the_annotation_removed_leaves_nothing(made: World) -> None:
    plain = workload(made.namespace, "plain")
    await made.client.create(plain)
    await made.model("gemma")
    await made.workload("app", model="gemma")
    async with delivering(made):
        await made.bound("ai-model-gemma-1")
        await made.settled()
        await made.annotate(Deployment, "app", model=None)
        assert claims_in(await template_of(made, "Deployment", "app")) == []
        await made.gone("ai-model-gemma-1")
        await eventually(partial(has_event, made, "app", "ModelDeliveryRemoved"))
        found = await made.client.get(Deployment, "app", made.namespace)
        assert [name for name in found.metadata.annotations if name.startswith("ai.deckhouse.io")] == []


async def test_a_replaced_model_rolls_its_workloads_once(made: World) -> None:
    await made.model("gemma", digest=DIGEST)
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
        await made.client.request(
            "DELETE", f"/apis/ai.deckhouse.io/v1alpha1/namespaces/{made.namespace}/models/gemma"
        )
        await made.model("gemma", digest=OTHER_DIGEST)
        await made.bound("ai-model-gemma-2")

        async def rolled() -> bool:
            return claims_in(await template_of(made, "Deployment", "app")) == ["ai-model-gemma-2"]

        await eventually(rolled)
        await eventually(partial(has_reason, made, "app", ""))
        await eventually(partial(has_revision, made, "2"))
    path = f"/api/v1/namespaces/{made.namespace}/pods/old"
    await made.client.request("DELETE", path, params={"gracePeriodSeconds": "0"})


async def has_revision(made: World, revision: str) -> bool:
    found = await made.client.get(Deployment, "app", made.namespace)
    return found.metadata.annotations.get("deployment.kubernetes.io/revision") == revision


async def test_jobs_and_pods_are_left_alone(made: World) -> None:
    template = workload(made.namespace, "x")["spec"]["template"]
    annotations = {"ai.deckhouse.io/model": "gemma"}
    metadata = {"name": "x", "namespace": made.namespace, "annotations": annotations}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    await made.client.create(pod)
    spec = {"template": template | {"spec": template["spec"] | {"restartPolicy": "Never"}}}
    await made.client.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    found = await made.client.get(Job, "x", made.namespace)
    assert "volumes" not in found.spec.template["spec"]
    assert (await made.client.get(Pod, "x", made.namespace)).spec.volumes[1:] == []
