"""The catalogue controller in this process, against the real API server and a real DMCR."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from aimodels.api.model import API_VERSION, AnyModel, ClusterModel, Model
from aimodels.processes.controller import build
from aimodels.processes.settings import ControllerSettings
from kubekit.client import Client, connect
from kubekit.errors import ApiError, NotFound
from kubekit.resources import SERVICE_ACCOUNT, Job, Pod
from kubekit.resources import Event as KubeEvent
from opskit.clock import SystemClock
from tests.kit.eventually import eventually
from tests.kit.modelsapi import install_definitions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from aimodels.api.reasons import Phase
    from kubekit.resources import Resource

WAIT = 20.0


class Cluster:
    """What tests do with a cluster: make models, look at them, play the kubelet."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def make(
        self, kind: type[AnyModel], source: dict[str, Any], name: str = "", **metadata: Any
    ) -> AnyModel:
        place = {"namespace": self.namespace} if kind.KIND.namespaced else {}
        manifest = {
            "apiVersion": API_VERSION,
            "kind": kind.KIND.name,
            "metadata": {"name": name or f"m-{uuid.uuid4().hex[:8]}"} | place | metadata,
            "spec": {"source": source},
        }
        return msgspec.convert(await self.client.create(manifest), kind)

    async def get(self, model: AnyModel) -> AnyModel:
        return await self.client.get(type(model), model.metadata.name, model.metadata.namespace or None)

    async def phase(self, model: AnyModel, phase: Phase, *, within: float = WAIT) -> AnyModel:
        """Wait for a phase and return the model as it is then."""

        async def reached() -> AnyModel | None:
            found = await self.get(model)
            return found if found.status is not None and found.status.phase == phase else None

        try:
            found: AnyModel = await eventually(reached, within=within)
        except AssertionError:
            raise AssertionError(f"{phase} not reached: {(await self.get(model)).status}") from None
        return found

    async def until(
        self, model: AnyModel, holds: Callable[[AnyModel], bool], *, within: float = WAIT
    ) -> AnyModel:
        async def reached() -> AnyModel | None:
            found = await self.get(model)
            return found if holds(found) else None

        found: AnyModel = await eventually(reached, within=within)
        return found

    async def gone(self, kind: type[Resource], name: str, namespace: str | None = None) -> None:
        async def missing() -> bool:
            return await self.client.find(kind, name, namespace) is None

        await eventually(missing)

    async def annotate(self, model: AnyModel, **annotations: str) -> None:
        body = {
            "metadata": {
                "annotations": {f"ai.deckhouse.io/{k.replace('_', '-')}": v for k, v in annotations.items()}
            }
        }
        await self.client.patch(
            type(model), model.metadata.name, body, namespace=model.metadata.namespace or None
        )

    async def delete(self, model: AnyModel) -> None:
        await self.client.delete(type(model), model.metadata.name, model.metadata.namespace or None)

    async def events(self, model: AnyModel) -> list[str]:
        found = await self.client.list(KubeEvent, model.metadata.namespace or "default")
        return [
            one.reason
            for one in sorted(found, key=lambda one: str(one.first_timestamp))
            if one.involved_object.uid == model.metadata.uid
        ]

    async def job(self, model: AnyModel, attempt: int = 1) -> Job:
        metadata = model.metadata
        name = f"ai-model-publish-{metadata.uid}-g{metadata.generation}-a{attempt}"

        async def found() -> Job | None:
            return await self.client.find(Job, name, self.namespace)

        job: Job = await eventually(found)
        return job

    async def pod(self, job: Job) -> Pod:
        """Return the Pod that the Job's controller made."""

        async def found() -> Pod | None:
            pods = await self.client.list(
                Pod, self.namespace, label_selector=f"batch.kubernetes.io/job-name={job.metadata.name}"
            )
            return pods[0] if pods else None

        pod: Pod = await eventually(found)
        return pod

    async def end_pod(self, job: Job, exit_code: int, message: str = "") -> None:
        """Report the Pod's end, as its kubelet would."""
        pod = await self.pod(job)
        terminated = {
            "exitCode": exit_code,
            "message": message,
            "reason": "Completed" if exit_code == 0 else "Error",
        }
        status = {
            "phase": "Succeeded" if exit_code == 0 else "Failed",
            "containerStatuses": [
                {
                    "name": "publish",
                    "ready": False,
                    "restartCount": 0,
                    "image": "x",
                    "imageID": "x",
                    "state": {"terminated": terminated},
                }
            ],
        }
        await self.client.patch(
            Pod,
            pod.metadata.name,
            {"status": status},
            namespace=self.namespace,
            content="strategic",
            subresource="status",
        )


@asynccontextmanager
async def running_catalog(
    kubeconfig: Path, namespace: str, dmcr_url: str, *, keep: bool = False, **settings: Any
) -> AsyncIterator[Cluster]:
    """Run the controller in this process; at the end it deletes every model unless they are to be kept."""
    given = ControllerSettings(
        image=settings.pop("image", "registry.invalid/ai-models:test"),
        namespace=namespace,
        dmcr_url=dmcr_url,
        dmcr_token_file=settings.pop("dmcr_token_file", None),
        health_port=0,
        **settings,
    )
    async with connect(kubeconfig) as client:
        await install_definitions(client)
        with suppress(ApiError):
            await client.create(
                {
                    "apiVersion": "v1",
                    "kind": SERVICE_ACCOUNT.name,
                    "metadata": {"name": "ai-models-publication", "namespace": namespace},
                }
            )
        manager = build(client, given, SystemClock(), lease=None)
        running = asyncio.create_task(manager.run())
        cluster = Cluster(client, namespace)
        try:
            yield cluster
            if not keep and not running.done():
                await _delete_all(cluster)
        finally:
            manager.stop()
            await running


async def _delete_all(cluster: Cluster) -> None:
    for kind, namespace in ((Model, cluster.namespace), (ClusterModel, None)):
        for model in await cluster.client.list(kind, namespace):
            with suppress(NotFound):
                await cluster.annotate(model, force_delete="true")
                await cluster.delete(model)
            await cluster.gone(kind, model.metadata.name, namespace)
