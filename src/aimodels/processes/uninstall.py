"""Prepares the removal of the product: stops the controllers, takes our finalizers off, says what stays.

Run by the chart before anything is deleted. Afterwards nothing of ours can hold up the deletion of a model or
of a namespace, and no volume outlives its claim against its class's will. Models, stored bytes and delivered
volumes are not touched: a later installation finds them.
"""

import asyncio
import sys
from collections.abc import Sequence

import msgspec

from aimodels.delivery import handover
from kubekit.client import Client, connect
from kubekit.errors import Conflict, NotFound
from kubekit.finalizer import remove_finalizer
from kubekit.resources import Deployment, Job, PersistentVolumeClaim, Pod, Resource, resource
from opskit import logging, process, settings

OURS = "ai.deckhouse.io/"
MODULE = "module=ai-models"
CONTROLLER = "ai-models-controller"
STORE = "dmcr-data"
STOP_SECONDS = 90.0
POLL_SECONDS = 0.5


@resource("ai.deckhouse.io/v1alpha1", "Model", "models")
class MarkedModel(Resource, frozen=True, kw_only=True):
    """A Model of any version, of which only the metadata counts here."""


@resource("ai.deckhouse.io/v1alpha1", "ClusterModel", "clustermodels", namespaced=False)
class MarkedClusterModel(Resource, frozen=True, kw_only=True):
    """A ClusterModel of any version, of which only the metadata counts here."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the Job is told by its environment."""

    namespace: str


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """What stays in the cluster."""

    namespace: str
    models: int
    cluster_models: int
    store: bool
    delivered: Sequence[tuple[str, str]]
    #: claims of copies that were not finished
    copies: Sequence[str] = ()
    #: volumes of copies that no claim has
    volumes: Sequence[str] = ()


async def uninstall(client: Client, namespace: str) -> Left:
    """Make the cluster independent of the product and return what stays."""
    await stop_controllers(client, namespace)
    for job in await client.list(Job, namespace, label_selector=MODULE):
        if job.metadata.labels.get("app") != "ai-models-uninstall":
            await client.delete(Job, job.metadata.name, namespace, uid=job.metadata.uid)
    models = await _release(client, MarkedModel)
    cluster_models = await _release(client, MarkedClusterModel)
    volumes = await conclude_hand_overs(client, namespace)
    claims = await client.list(PersistentVolumeClaim, label_selector=MODULE)
    keys = [claim.metadata.key for claim in claims]
    return Left(
        namespace=namespace,
        models=models,
        cluster_models=cluster_models,
        store=(namespace, STORE) in keys,
        delivered=sorted(key for key in keys if key[0] != namespace),
        copies=sorted(name for place, name in keys if place == namespace and name != STORE),
        volumes=volumes,
    )


async def conclude_hand_overs(client: Client, namespace: str) -> list[str]:
    """Leave no volume half handed over; Kubernetes may bind or delete one at the same moment."""
    async with asyncio.timeout(STOP_SECONDS):
        while True:
            try:
                return await handover.conclude(client, namespace)
            except (Conflict, NotFound):
                logging.logger(__name__).info("a volume changed or went meanwhile, looked at again")
                await asyncio.sleep(POLL_SECONDS)


async def stop_controllers(client: Client, namespace: str) -> None:
    """End every controller Pod, so that no finalizer is put on again behind our back."""
    stopped = {"spec": {"replicas": 0}}
    try:
        await client.patch(Deployment, CONTROLLER, stopped, namespace=namespace, subresource="scale")
    except NotFound:
        return
    async with asyncio.timeout(STOP_SECONDS):
        while await _any_runs(client, namespace):  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)


async def _any_runs(client: Client, namespace: str) -> bool:
    """Tell whether a controller Pod can still write; one that was evicted stays listed and cannot."""
    pods = await client.list(Pod, namespace, label_selector=f"app={CONTROLLER}")
    return any(not pod.finished for pod in pods)


async def _release(client: Client, kind: type[MarkedModel | MarkedClusterModel]) -> int:
    """Take our finalizers off every object of the kind and return how many objects stay."""
    try:
        found = await client.list(kind)
    except NotFound:
        return 0
    for one in found:
        await _release_one(client, kind, one)
    return sum(not one.metadata.deleting for one in found)


async def _release_one(client: Client, kind: type[MarkedModel | MarkedClusterModel], about: Resource) -> None:
    now: Resource | None = about
    while now and (mine := next((name for name in now.metadata.finalizers if name.startswith(OURS)), None)):
        try:
            await remove_finalizer(client, now, mine)
        except Conflict:
            logging.logger(__name__).info("changed meanwhile, read again", object=about.metadata.name)
        now = await client.find(kind, about.metadata.name, about.metadata.namespace or None)


def report(left: Left) -> str:
    """Return the text that tells a person what stays and how to remove it."""
    lines = [
        "The processes of ai-models are going; nothing of theirs holds up a deletion any more. What stays:"
    ]
    lines.append(
        f"  {left.models} Models and {left.cluster_models} ClusterModels, with their definitions (CRDs)"
    )
    if left.store:
        lines.append(f"  the stored models, on the claim {STORE} in {left.namespace}")
    else:
        lines.append("  the stored models, in the S3 bucket")
    lines += [
        f"  a delivered model, on the claim {name} in {namespace}" for namespace, name in left.delivered
    ]
    if left.copies:
        lines.append(f"  {len(left.copies)} copies that were not finished, on claims in {left.namespace}")
    lines += [f"  a copy that no claim has, on the volume {name}" for name in left.volumes]
    lines += [
        f"  certificates and keys, in Secrets of {left.namespace}",
        "Installed again under the same name and namespace, the product takes it up again. To remove it:",
        "  kubectl delete crd models.ai.deckhouse.io clustermodels.ai.deckhouse.io",
        f"  kubectl delete namespace {left.namespace}",
    ]
    lines += [f"  kubectl -n {namespace} delete pvc {name}" for namespace, name in left.delivered]
    lines += [f"  kubectl delete pv {name}" for name in left.volumes]
    return "\n".join(lines) + "\n"


async def main() -> None:
    """Prepare the removal in the namespace that the environment names, and print what stays."""
    given = settings.load(Settings, prefix="AI_MODELS_")
    logging.configure("ai-models-uninstall")
    async with connect() as client:
        left = await uninstall(client, given.namespace)
    sys.stdout.write(report(left))


if __name__ == "__main__":
    sys.exit(process.run(main))
