"""One look at a model: stores, the board of transfers, and what has to be asked for in its stage.

What belongs here: gathering. What does not: judging (``decide``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from aimodels.api.reasons import Phase
from aimodels.catalog import names
from aimodels.catalog.publications import refused_by_another_version
from aimodels.catalog.reasons import cause, refusal
from aimodels.catalog.registry import is_outage
from aimodels.catalog.state import (
    Cause,
    Observation,
    PublicationJob,
    Published,
    Queue,
    UploadObjects,
    is_wished,
)
from aimodels.catalog.transfers import tags_of
from aimodels.catalog.verify import UploadGone, read_back, received_file
from aimodels.jobs.observed import JobPhase, ended, phase_of, pods_of, why_held
from kubekit.resources import Secret
from modelio.registry import NotFound, RegistryUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from aimodels.api.model import AnyModel
    from aimodels.catalog.handout import Handout
    from aimodels.catalog.names import Key
    from aimodels.catalog.registry import Registry
    from aimodels.catalog.slots import Slots
    from aimodels.catalog.state import Obstacle
    from aimodels.catalog.transfers import TransferBoard
    from aimodels.jobs.manifest import JobSettings
    from kubekit.client import Client
    from kubekit.resources import Job, Pod, Resource
    from kubekit.store import Store
    from modelio.registry import TransferProgress


class Consumers(Protocol):
    """Who uses a model: answered by delivery, which the catalogue does not know."""

    def __call__(self, kind: str, namespace: str, name: str) -> tuple[str, ...]:
        """Return the workloads and Pods that use the model, as people write them."""
        ...


class Observer:
    """Gathers what is known about one model."""

    def __init__(
        self,
        client: Client,
        registry: Registry,
        board: TransferBoard,
        slots: Slots,
        *,
        models: Mapping[str, Store[AnyModel]],
        jobs: Store[Job],
        consumers: Consumers,
        handout: Handout,
        settings: JobSettings,
        evaluation: bool = False,
    ) -> None:
        self._client = client
        self._registry = registry
        self._board = board
        self._slots = slots
        self._models = models
        self._jobs = jobs
        self._consumers = consumers
        self._handout = handout
        self._settings = settings
        self._namespace, self._image = settings.namespace, settings.image
        self._evaluation = evaluation

    def model(self, key: Key) -> AnyModel | None:
        """Return the model as the informer knows it."""
        return self._models[key.kind].get(key.namespace, key.name)

    def hindered(self, model: AnyModel, obstacle: Obstacle) -> None:
        """Note what stood in the way of the model's Job."""
        self._slots.hinder(model.metadata.uid, obstacle)

    async def observe(self, key: Key, model: AnyModel, now: datetime) -> Observation:
        """Return what is known about the model; a registry that has not answered for long is part of it."""
        status = model.status
        if model.metadata.deleting:
            used = status is not None and status.artifact is not None
            return Observation(model, consumers=self._consumers(*key) if used else ())
        if refusal(model.spec.source) is not None or _is_settled(model, self._image):
            return Observation(model, image=self._image)
        if self._registry.problem:
            # The board's poll goes on, and tells everybody when the registry answers again.
            return Observation(model, problem=self._registry.problem, image=self._image)
        return await self._stage(key, model, now)

    async def _stage(self, key: Key, model: AnyModel, now: datetime) -> Observation:
        transfers = await self._transfers(model.metadata.uid)
        tags: Mapping[str, str] = tags_of(transfers.values()) if transfers else await self._tags(key)
        job, published, received = PublicationJob(JobPhase.ABSENT), None, None
        publishing = model.status is not None and model.status.phase == Phase.PUBLISHING
        if publishing:
            job = await self._job(model, now)
            tags, received = await self._received(key, model, tags)
        if names.PUBLISHED_TAG in tags or job.phase is JobPhase.SUCCEEDED:
            published = await read_back(await self._registry.client(), names.repository(key))
        return Observation(
            model,
            tags=tags,
            transfers={name: self._board.bytes_of(item) for name, item in transfers.items()},
            upload=None if publishing else await self._upload(key, model),
            job=job,
            published=published if isinstance(published, Published) else None,
            broken=published if isinstance(published, Cause) else None,
            received=received,
            evaluation=self._evaluation,
            image=self._image,
            queue=self._slots.queue(model, self._all(), self._jobs.list(), now) if publishing else Queue(),
            obstacle=self._slots.obstacle(model.metadata.uid) if publishing else None,
        )

    async def _transfers(self, uid: str) -> Mapping[str, TransferProgress]:
        if not await self._board.known():
            raise RegistryUnavailable("the registry does not list its transfers")
        return self._board.of(uid) or {}

    async def _tags(self, key: Key) -> dict[str, str]:
        """Ask for the two tags: without a transfer nobody lists them."""
        client, repository = await self._registry.client(), names.repository(key)
        found = {}
        for tag in (names.UPLOAD_TAG, names.PUBLISHED_TAG):
            try:
                found[tag] = (await client.get_manifest(repository, tag)).digest
            except NotFound as error:
                if is_outage(error):
                    raise
        self._registry.answered()
        return found

    async def _received(
        self, key: Key, model: AnyModel, tags: Mapping[str, str]
    ) -> tuple[Mapping[str, str], str | None]:
        """Return the tags and the digest of the uploaded file; what was read once stands in the status.

        The board shows the tags of a transfer a moment after it was allowed: that the file is gone is
        believed to the registry alone.
        """
        known = model.status.source.resolved_revision if model.status and model.status.source else None
        if names.UPLOAD_TAG not in tags:
            tags = await self._tags(key)
        if known is not None or names.UPLOAD_TAG not in tags:
            return tags, known
        client = await self._registry.client()
        try:
            file = await received_file(client, names.repository(key), tags[names.UPLOAD_TAG])
        except UploadGone:
            return {tag: digest for tag, digest in tags.items() if tag != names.UPLOAD_TAG}, None
        return tags, file.digest

    async def _upload(self, key: Key, model: AnyModel) -> UploadObjects | None:
        secret = await self._client.find(Secret, names.upload_secret(key), self._handout.place(key))
        if secret is None or not owned(secret, model):
            return None
        issued = secret.metadata.creation_timestamp
        if not {"url", "token"} <= secret.data.keys() or issued is None:
            return None
        return UploadObjects(names.transfer_of(secret), issued, current=self._handout.current(secret))

    async def _job(self, model: AnyModel, now: datetime) -> PublicationJob:
        status, metadata = model.status, model.metadata
        if status is None or status.publication is None:
            return PublicationJob(JobPhase.ABSENT)
        name = names.publication_job(metadata.uid, metadata.generation, status.publication.attempt)
        job = self._jobs.get(self._namespace, name)
        if job is None or job.metadata.deleting:
            expected = self._slots.expects(metadata.uid, name, now)
            return PublicationJob(JobPhase.ACTIVE if expected else JobPhase.ABSENT)
        phase = phase_of(job)
        if phase is JobPhase.FAILED:
            return _ended(await pods_of(self._client, job))
        if phase is not JobPhase.ACTIVE:
            return PublicationJob(phase)
        running = job.status.ready > 0
        return PublicationJob(
            phase,
            since=job.metadata.creation_timestamp,
            running=running,
            held=None if running else await why_held(self._client, job, self._settings),
        )

    def _all(self) -> list[AnyModel]:
        return [model for store in self._models.values() for model in store.list()]


def owned(thing: Resource, model: AnyModel) -> bool:
    """Tell whether the object belongs to this life of the model."""
    return thing.metadata.belongs_to(model.metadata)


def _is_settled(model: AnyModel, image: str) -> bool:
    """Tell whether nothing has to be asked: Ready, or Failed and nothing to begin again for."""
    status = model.status
    if status is None:
        return False
    if status.phase == Phase.READY:
        return True
    if status.observed_generation != model.metadata.generation:
        return True
    return status.phase == Phase.FAILED and not (
        is_wished(model) or refused_by_another_version(status, image)
    )


def _ended(pods: list[Pod]) -> PublicationJob:
    """Return the end of a Job with what its worker left; one that vanished left nothing."""
    ends = ended(pods)
    return PublicationJob(
        JobPhase.FAILED,
        verdict=next(filter(None, (cause(one) for one in ends)), None),
        words=next((one.message for one in ends if one.message), ""),
    )
