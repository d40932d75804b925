"""The chart on a real API server: accepted, upgraded, removed, installed again over what was kept.

A control plane of its own, as the chart's objects are one set a cluster. Without nodes no hook can run, so
hooks are left out here; the end-to-end tests run them.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aimodels.api.model import FINALIZER, ClusterModel, Model
from aimodels.processes import uninstall
from devcluster import cache, components, gobuild
from devcluster.progress import Progress
from kubekit import podsecurity
from kubekit.client import Client, connect
from kubekit.errors import Forbidden
from kubekit.resources import (
    Deployment,
    Job,
    MutatingWebhookConfiguration,
    Namespace,
    PersistentVolumeClaim,
    Pod,
    Secret,
)
from tests.kit import helm
from tests.kit.controlplane import own_control_plane
from tests.kit.eventually import eventually
from tools import installation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = pytest.mark.cluster

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.fixture(scope="module")
def own() -> Iterator[Path]:
    with own_control_plane() as kubeconfig:
        yield kubeconfig


@pytest.fixture
async def client(own: Path) -> AsyncIterator[Client]:
    async with connect(own) as client:
        yield client


def _helm(own: Path, *arguments: str) -> str:
    return helm.helm(*arguments, "-n", helm.NAMESPACE, "--no-hooks", kubeconfig=own)


async def test_install_upgrade_uninstall_and_install_again(own: Path, client: Client) -> None:
    chart = str(helm.CHART)
    _helm(own, "install", "ai-models", chart, "--create-namespace")
    await client.get(Deployment, "dmcr", helm.NAMESPACE)
    store = await client.get(PersistentVolumeClaim, "dmcr-data", helm.NAMESPACE)
    await client.create(_model("kept"))

    authority: list[dict[str, Any]] = [
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "Q0E="}
    ]
    await client.patch(MutatingWebhookConfiguration, "ai-models", authority, content="json")
    _helm(own, "upgrade", "ai-models", chart, "--set", "logLevel=Debug")
    (webhook,) = (await client.get(MutatingWebhookConfiguration, "ai-models")).webhooks
    assert webhook["clientConfig"]["caBundle"] == "Q0E="

    _helm(own, "uninstall", "ai-models")
    assert await client.find(Deployment, "dmcr", helm.NAMESPACE) is None
    assert (
        await client.get(PersistentVolumeClaim, "dmcr-data", helm.NAMESPACE)
    ).metadata.uid == store.metadata.uid
    await client.get(Model, "kept", "default")

    _helm(own, "install", "ai-models", chart)
    assert (
        await client.get(PersistentVolumeClaim, "dmcr-data", helm.NAMESPACE)
    ).metadata.uid == store.metadata.uid
    await client.get(Model, "kept", "default")


async def test_a_restricted_namespace_admits_every_pod(client: Client) -> None:
    labels = {"metadata": {"labels": RESTRICTED}}
    await client.patch(Namespace, helm.NAMESPACE, labels)
    for template in helm.pod_templates(helm.render()).values():
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "probe",
                "namespace": helm.NAMESPACE,
                "labels": template["metadata"]["labels"],
            },
            "spec": template["spec"] | {"serviceAccountName": "default"},
        }
        await client.create(pod, dry_run=True)
    careless = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": helm.NAMESPACE},
        "spec": {"containers": [{"name": "x", "image": "x"}]},
    }
    with pytest.raises(Forbidden, match="restricted"):
        await client.create(careless, dry_run=True, kind=Pod.KIND)


async def test_the_namespace_is_labelled_and_a_careless_pod_refused(client: Client) -> None:
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "labelled"}})
    await podsecurity.restrict(client, "labelled", "tests")
    labels = (await client.get(Namespace, "labelled")).metadata.labels
    assert {key.partition("/")[2] for key, value in labels.items() if value == "restricted"} == {
        "enforce",
        "audit",
        "warn",
    }


async def test_a_removal_takes_finalizers_off_and_says_what_stays(client: Client) -> None:
    module = {"module": "ai-models"}
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    held = _model("held") | {
        "metadata": {"name": "held", "namespace": "team", "finalizers": [FINALIZER, "x.io/a"]}
    }
    shared = {"name": "shared", "finalizers": [FINALIZER]}
    await client.create(held)
    await client.create({**_model("shared"), "kind": "ClusterModel", "metadata": shared})
    await client.create(
        {**_model("going"), "metadata": {"name": "going", "namespace": "team", "finalizers": [FINALIZER]}}
    )
    await client.delete(Model, "going", "team")
    await client.create(_claim("team", "ai-model-held-1", module))
    await client.create(_claim("team", "theirs", {}))
    await client.create(_job("ai-model-publish-x", {**module, "app": "ai-models-publication"}))
    await client.create(_job("theirs", {}))

    left = await uninstall.uninstall(client, helm.NAMESPACE)

    assert (await client.get(Model, "held", "team")).metadata.finalizers == ["x.io/a"]
    assert (await client.get(ClusterModel, "shared")).metadata.finalizers == []
    assert await client.find(Model, "going", "team") is None
    assert [job.metadata.name for job in await client.list(Job, helm.NAMESPACE)] == ["theirs"]
    assert left.delivered == [("team", "ai-model-held-1")]
    assert (left.store, left.cluster_models) == (True, 1)
    text = uninstall.report(left)
    assert "the stored models, on the claim dmcr-data in d8-ai-models" in text
    assert "kubectl -n team delete pvc ai-model-held-1" in text

    repeated = await uninstall.uninstall(client, helm.NAMESPACE)
    assert repeated == left
    await client.patch(Model, "held", {"metadata": {"finalizers": None}}, namespace="team")


async def test_a_removal_stops_the_controllers_first(client: Client) -> None:
    await uninstall.stop_controllers(client, helm.NAMESPACE)
    deployment = await client.get(Deployment, "ai-models-controller", helm.NAMESPACE)
    assert deployment.spec.replicas == 0
    assert await client.list(Pod, helm.NAMESPACE, label_selector="app=ai-models-controller") == []


def _claim(place: str, name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": place, "labels": labels},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }


def _job(name: str, labels: dict[str, str]) -> dict[str, Any]:
    security = {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {"name": "x", "image": "x", "securityContext": security}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": name, "namespace": helm.NAMESPACE, "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


async def test_an_installation_that_was_killed_is_not_in_the_way_of_the_next(
    own: Path, client: Client
) -> None:
    release, namespace = ("ai-models", "interrupted")
    arguments = ["upgrade", "--install", release, str(helm.CHART), "-n", namespace, "--no-hooks"]
    waiting = ["--kubeconfig", str(own), *arguments, "--create-namespace", "--wait", "--take-ownership"]
    killed = await asyncio.create_subprocess_exec(helm.binary(), *waiting)
    try:
        await eventually(lambda: client.find(Secret, f"sh.helm.release.v1.{release}.v1", namespace))
    finally:
        killed.kill()
        await killed.wait()
    with pytest.raises(helm.RenderError, match="another operation"):
        helm.helm(*arguments, "--take-ownership", kubeconfig=own)

    binaries = gobuild.ensure_binaries(
        [one for one in components.NODE + components.CONTROL_PLANE if one.name == "kubectl"],
        cache.folder("devcluster"),
        Progress(),
    )
    target = installation.Target(own, binaries["kubectl"], Path(helm.binary()), own.parent)
    installation.drop_interrupted(target, release, namespace)
    helm.helm(*arguments, "--take-ownership", kubeconfig=own)
    helm.helm("uninstall", release, "-n", namespace, "--no-hooks", kubeconfig=own)


def _model(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "ai.deckhouse.io/v1alpha1",
        "kind": "Model",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"source": {"upload": {}}},
    }
