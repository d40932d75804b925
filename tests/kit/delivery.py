"""Delivery on a real API server without nodes: what it needs of storage and kubelet is played here.

`Storage` makes a volume for every claim that is being filled; `Kubelet` ends the Pods of copy Jobs;
`Webhook` serves the real route to the real API server. The registry is a note pad.
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import trustme
from starlette.applications import Starlette

from aimodels.api.model import Model
from aimodels.delivery import webhook
from aimodels.delivery.names import COPY_APP
from aimodels.delivery.wiring import Delivery, DeliverySettings, setup
from aimodels.jobs.manifest import JobSettings
from kubekit.client import Client, connect
from kubekit.manager import Manager
from kubekit.resources import (
    MutatingWebhookConfiguration,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
)
from opskit.clock import SystemClock
from tests.kit.eventually import eventually
from webkit.server import serve
from webkit.tls import TlsFiles

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelio.registry import RegistryClient, RegistryError, TransferSpec

DIGEST = "sha256:" + "ab" * 32
OTHER_DIGEST = "sha256:" + "cd" * 32
SIZE = 1_500_000_000
#: how often storage and kubelet look for work, in seconds: each look costs the API server and the test
LOOK_EVERY = 0.2


class NotePad:
    """The registry as far as delivery asks it: transfers that are allowed and revoked."""

    def __init__(self) -> None:
        self.allowed: dict[str, TransferSpec] = {}
        self.revoked: list[str] = []

    async def client(self) -> RegistryClient:
        return cast("RegistryClient", self)

    def answered(self) -> None:
        """Nothing is noted."""

    def failed(self, error: RegistryError) -> None:
        raise AssertionError(error)

    async def put_transfer(self, transfer: str, spec: TransferSpec) -> None:
        assert transfer not in self.revoked, "a revoked transfer does not come back"
        self.allowed[transfer] = spec

    async def revoke_transfer(self, transfer: str) -> None:
        self.revoked.append(transfer)
        self.allowed.pop(transfer, None)


@dataclass
class World:
    """One installation of delivery and one user's namespace."""

    client: Client
    module_namespace: str
    namespace: str
    storage_class: str
    registry: NotePad
    kubelet_works: asyncio.Event = field(default_factory=asyncio.Event)
    storage_works: asyncio.Event = field(default_factory=asyncio.Event)

    async def model(self, name: str, *, digest: str = DIGEST, ready: bool = True) -> None:
        """Make a Model of the user's namespace, Ready with a digest unless told otherwise."""
        metadata = {"name": name, "namespace": self.namespace}
        spec: dict[str, Any] = {"source": {"upload": {}}}
        kind = {"apiVersion": Model.KIND.api_version, "kind": "Model"}
        await self.client.create({**kind, "metadata": metadata, "spec": spec})
        if ready:
            await self.publish(name, digest)

    async def publish(self, name: str, digest: str = DIGEST) -> None:
        """Write the status of a Ready model."""
        status = {
            "phase": "Ready",
            "observedGeneration": 1,
            "artifact": {"digest": digest, "sizeBytes": SIZE},
            "observedSource": {"type": "upload"},
        }
        await self.client.patch(
            Model, name, {"status": status}, namespace=self.namespace, subresource="status"
        )

    async def workload(self, name: str, kind: str = "Deployment", **annotations: str) -> dict[str, Any]:
        """Make a workload of the kind with annotations `model=` and `clustermodel=`."""
        return await self.client.create(workload(self.namespace, name, kind, **annotations))

    async def annotate(self, struct: Any, name: str, **annotations: str | None) -> None:
        """Change the model annotations of a workload."""
        body = {"metadata": {"annotations": _prefixed(annotations)}}
        await self.client.patch(struct, name, body, namespace=self.namespace)

    async def claims(self) -> list[PersistentVolumeClaim]:
        """Return the claims of the user's namespace."""
        return await self.client.list(PersistentVolumeClaim, self.namespace)

    async def fills(self) -> list[PersistentVolumeClaim]:
        """Return the claims of the module's namespace."""
        return await self.client.list(PersistentVolumeClaim, self.module_namespace)

    async def bound(self, name: str) -> PersistentVolumeClaim:
        """Wait until a claim of the user's namespace is bound."""

        async def look() -> PersistentVolumeClaim | None:
            found = await self.client.find(PersistentVolumeClaim, name, self.namespace)
            return found if found is not None and found.bound else None

        found = await eventually(look)
        assert found is not None
        return found

    async def settled(self) -> None:
        """Wait until nothing of any filling is left."""

        async def look() -> bool:
            return not await self.fills()

        await eventually(look)

    async def volume(self, name: str) -> PersistentVolume:
        """Return a volume."""
        return await self.client.get(PersistentVolume, name)

    async def gone(self, name: str) -> None:
        """Wait until a claim of the user's namespace is gone."""

        async def look() -> bool:
            return await self.client.find(PersistentVolumeClaim, name, self.namespace) is None

        await eventually(look)


def workload(namespace: str, name: str, kind: str = "Deployment", **annotations: str) -> dict[str, Any]:
    """Return the manifest of a workload of any supported kind, without Pods: nobody would end them."""
    pod: dict[str, Any] = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "app", "image": "example.com/app:1"}]},
    }
    spec: dict[str, Any] = {"selector": {"matchLabels": {"app": name}}, "template": pod}
    if kind in {"Deployment", "StatefulSet"}:
        spec["replicas"] = 0
    if kind == "StatefulSet":
        spec["serviceName"] = name
    if kind == "CronJob":
        pod["spec"]["restartPolicy"] = "Never"
        spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": pod}}}
    return {
        "apiVersion": "batch/v1" if kind == "CronJob" else "apps/v1",
        "kind": kind,
        "metadata": {"namespace": namespace, "name": name, "annotations": _prefixed(annotations)},
        "spec": spec,
    }


def _prefixed(annotations: dict[str, Any]) -> dict[str, Any]:
    return {f"ai.deckhouse.io/{name}": value for name, value in annotations.items()}


@asynccontextmanager
async def world(kubeconfig: Path, module_namespace: str, namespace: str) -> AsyncIterator[World]:
    """Make a world whose storage and kubelet work; its StorageClass and volumes go with it."""
    async with connect(kubeconfig) as client:
        account = {"name": "ai-models-copy", "namespace": module_namespace}
        await client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        made = World(client, module_namespace, namespace, f"class-{module_namespace}", NotePad())
        await client.create(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": made.storage_class},
                "provisioner": "kubernetes.io/no-provisioner",
            }
        )
        made.kubelet_works.set()
        made.storage_works.set()
        playing = [asyncio.create_task(_storage(made)), asyncio.create_task(_kubelet(made))]
        try:
            yield made
        finally:
            for task in playing:
                task.cancel()
            await _remove_volumes(made)
            await client.delete(StorageClass, made.storage_class)


@asynccontextmanager
async def delivering(
    made: World,
    *,
    most_copies: int = 2,
    manager: Manager | None = None,
    image: str = "example.com/ai-models:1",
) -> AsyncIterator[Delivery]:
    """Run the controllers of delivery."""
    manager = manager or Manager(made.client)
    copies = JobSettings(made.module_namespace, image, "https://dmcr.invalid")
    settings = DeliverySettings(copies, made.storage_class, most_copies)
    delivery = setup(manager, settings, made.registry, SystemClock())
    running = asyncio.create_task(manager.run())
    try:
        yield delivery
    finally:
        manager.stop()
        await running


@asynccontextmanager
async def admitting(made: World, folder: Path) -> AsyncIterator[None]:
    """Serve the webhook and have the API server ask it about the user's namespace."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    files = TlsFiles(folder / "tls.crt", folder / "tls.key")
    certificate.cert_chain_pems[0].write_to_path(files.certificate)
    certificate.private_key_pem.write_to_path(files.key)
    manager = Manager(made.client)
    app = Starlette(routes=webhook.routes(manager, module_namespace=made.module_namespace))
    started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(app, host="127.0.0.1", port=0, tls=files, started=started.set_result))
    following = asyncio.create_task(manager.run())
    configuration = _configuration(made, await started, authority.cert_pem.bytes())
    try:
        await eventually(lambda: _is_ready(manager))
        await made.client.create(configuration)
        await eventually(lambda: _asks(made))
        yield
    finally:
        await made.client.delete(MutatingWebhookConfiguration, configuration["metadata"]["name"])
        manager.stop()
        await following
        serving.cancel()


def _configuration(made: World, port: int, authority: bytes) -> dict[str, Any]:
    rules = [
        {
            "apiGroups": [group],
            "apiVersions": ["v1"],
            "resources": resources,
            "operations": ["CREATE", "UPDATE"],
        }
        for group, resources in (
            ("apps", ["deployments", "statefulsets", "daemonsets"]),
            ("batch", ["cronjobs"]),
        )
    ]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": f"delivery-{made.module_namespace}"},
        "webhooks": [
            {
                "name": "workloads.ai-models.deckhouse.io",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Ignore",
                "timeoutSeconds": 3,
                "reinvocationPolicy": "IfNeeded",
                "clientConfig": {
                    "url": f"https://127.0.0.1:{port}{webhook.PATH}",
                    "caBundle": base64.b64encode(authority).decode(),
                },
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": made.namespace}},
                "rules": rules,
            }
        ],
    }


async def _is_ready(manager: Manager) -> bool:
    return manager.ready() is None


async def _asks(made: World) -> bool:
    """Tell whether the API server uses the configuration already: it reads it a moment after the write."""
    probe = workload(made.namespace, "probe", model="probe")
    answer = await made.client.create(probe, dry_run=True)
    return "volumes" in answer["spec"]["template"]["spec"]


async def _storage(made: World) -> None:
    """Make a volume for every claim that is being filled, as a provisioner would."""
    while True:
        await made.storage_works.wait()
        for claim in await made.fills():
            if not claim.spec.volume_name and not claim.metadata.deleting:
                await _provision(made, claim)
        await asyncio.sleep(LOOK_EVERY)


async def _provision(made: World, claim: PersistentVolumeClaim) -> None:
    name = f"pv-{claim.metadata.uid}"
    if await made.client.find(PersistentVolume, name) is not None:
        return
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.metadata.namespace,
        "name": claim.metadata.name,
        "uid": claim.metadata.uid,
    }
    spec = {
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": claim.spec.resources.requests["storage"]},
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": made.storage_class,
        "claimRef": reference,
        "csi": {"driver": "test.example.com", "volumeHandle": name},
    }
    labels = {"test": made.module_namespace}
    manifest = {"apiVersion": "v1", "kind": "PersistentVolume", "spec": spec}
    await made.client.create(manifest | {"metadata": {"name": name, "labels": labels}})


async def _remove_volumes(made: World) -> None:
    selector = f"test={made.module_namespace}"
    for volume in await made.client.list(PersistentVolume, label_selector=selector):
        await made.client.patch(PersistentVolume, volume.metadata.name, {"metadata": {"finalizers": None}})
        await made.client.delete(PersistentVolume, volume.metadata.name)


async def _kubelet(made: World) -> None:
    """Let the Pod of every copy Job end well once its claim is bound."""
    while True:
        await made.kubelet_works.wait()
        bound = {claim.metadata.name for claim in await made.fills() if claim.bound}
        pods = await made.client.list(Pod, made.module_namespace, label_selector=f"app={COPY_APP}")
        for pod in pods:
            mounted = {
                volume.persistent_volume_claim.claim_name
                for volume in pod.spec.volumes
                if volume.persistent_volume_claim
            }
            if not pod.finished and not pod.metadata.deleting and mounted <= bound:
                await end_pod(made, pod, "Succeeded")
        await asyncio.sleep(LOOK_EVERY)


async def end_pod(made: World, pod: Pod, phase: str, *, exit_code: int = 0, message: str = "") -> None:
    """Write the end of a Pod into its status."""
    ended = {"terminated": {"exitCode": exit_code, "message": message, "reason": "Completed"}}
    status = {"name": "copy", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": ended}
    await made.client.patch(
        Pod,
        pod.metadata.name,
        {"status": {"phase": phase, "containerStatuses": [status]}},
        namespace=pod.metadata.namespace,
        subresource="status",
    )


async def copy_pods(made: World) -> list[Pod]:
    """Return the Pods of copy Jobs."""
    return await made.client.list(Pod, made.module_namespace, label_selector=f"app={COPY_APP}")
