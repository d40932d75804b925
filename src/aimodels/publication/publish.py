"""From an upload to a published artifact: judge, store the layers, check them back, commit.

Every step can be repeated: what is stored is found again, and equal files give an equal artifact.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aimodels.api.reasons import ModelReason
from aimodels.jobs.worker import Interrupted
from aimodels.publication import plan
from aimodels.publication.outcome import Refused
from aimodels.publication.push import Pusher
from aimodels.publication.received import DEFAULT_NAME, RemoteBlob, fetch
from modelkit import archives, inspection, modelpack, names
from modelkit.errors import NotAModel, NotServed
from modelkit.formats import detect
from modelkit.formats.detect import Container
from modelkit.modelpack import Layer
from opskit.logging import logger

if TYPE_CHECKING:
    from aimodels.publication.plan import PlannedLayer
    from aimodels.publication.received import Received
    from modelio.registry import RegistryClient
    from modelkit.inspection import Inspection

PUBLISHED_TAG = "published"
_log = logger(__name__)


async def publish(client: RegistryClient, repository: str, owner: str) -> str:
    """Publish what was uploaded to the repository and return the artifact's digest.

    Raises:
        Refused: it is no model that can be published.
        Interrupted, RegistryError: another attempt may succeed.
    """
    received = await fetch(client, repository)
    blob = RemoteBlob(client, repository, received)
    judged, planned = await asyncio.to_thread(_judge, blob, received)
    _log.info("judged", format=judged.format, family=judged.facts.family, layers=len(planned) or 1)
    if planned:
        pusher = Pusher(client, repository, received, owner)
        layers = [await pusher.push(layer) for layer in planned]
    else:
        layers = [Layer(received.filename or DEFAULT_NAME, received.digest, received.size)]
    return await _commit(client, repository, judged, layers)


def _judge(blob: RemoteBlob, received: Received) -> tuple[Inspection, list[PlannedLayer]]:
    """Read headers and decide; no planned layer means that the upload is the layer."""
    try:
        container = _container(blob, received)
        if container is Container.GGUF:
            name = received.filename or DEFAULT_NAME
            return inspection.inspect_gguf({name: lambda: blob}), []
        where = received.filename or "the upload"
        members = archives.members(blob, where)
        judged = inspection.inspect_files(inspection.archive_files(blob, members))
        return judged, plan.layers(judged.format, members)
    except (NotAModel, plan.Rejected, names.BadName) as error:
        raise Refused(ModelReason.PUBLICATION_FAILED, f"{error}.") from error


def _container(blob: RemoteBlob, received: Received) -> Container:
    try:
        return detect.serve(received.filename, blob.read_at(0, detect.HEAD))
    except NotServed as error:
        raise Refused(ModelReason.UNSUPPORTED_SOURCE, f"{error}.") from error


async def _commit(client: RegistryClient, repository: str, judged: Inspection, layers: list[Layer]) -> str:
    """Check every blob by digest and size, commit the manifest, and read it back."""
    try:
        package = modelpack.pack(layers, judged.facts, judged.template_path)
    except ValueError as error:
        raise Refused(ModelReason.PUBLICATION_FAILED, f"{error}.") from error
    config = await client.push_blob(repository, package.config)
    sizes = {config: len(package.config), **{layer.digest: layer.size for layer in layers}}
    for digest, size in sizes.items():
        stored = await client.head_blob(repository, digest)
        if stored != size:
            raise Interrupted(f"{digest} is stored with {stored} bytes, not {size}")
    digest = await client.put_manifest(repository, PUBLISHED_TAG, modelpack.MANIFEST, package.manifest)
    read = await client.get_manifest(repository, PUBLISHED_TAG)
    if read.body != package.manifest:
        raise Interrupted(f"the tag {PUBLISHED_TAG} names {read.digest}, not {digest}")
    return digest
