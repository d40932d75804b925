"""The catalogue in a process: informers to keys, keys to the reconciler.

What belongs here: who tells whom. What does not: what is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aimodels.api.model import AnyModel, ClusterModel, Model
from aimodels.api.reasons import Phase
from aimodels.catalog import names
from aimodels.catalog.act import Actor
from aimodels.catalog.handout import Handout, UploadSettings
from aimodels.catalog.names import Key
from aimodels.catalog.observe import Consumers, Observer
from aimodels.catalog.reconcile import Reconciler
from aimodels.catalog.report import Reporter
from aimodels.catalog.slots import Slots
from aimodels.catalog.sweep import Sweeper
from aimodels.catalog.transfers import TransferBoard
from kubekit.apply import Applier
from kubekit.controller import Controller
from kubekit.events import Recorder
from kubekit.manager import Manager, Stage
from kubekit.queue import KeyedQueue, Priority
from kubekit.resources import Job

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aimodels.catalog.registry import Registry
    from aimodels.jobs.manifest import JobSettings
    from kubekit.informer import Informer
    from kubekit.store import Change, Store
    from modelio.registry import TransferProgress
    from opskit.clock import Clock

MANAGER_NAME = "ai-models-catalog"
_WORKERS = 8
_BY_UID = "catalog-uid"
#: phases in which the registry is needed: somebody may move bytes, or waits to begin
_MOVING = (Phase.PENDING, Phase.WAIT_FOR_UPLOAD, Phase.PUBLISHING)


@dataclass(frozen=True)
class CatalogSettings:
    """What the catalogue is told."""

    jobs: JobSettings
    uploads: UploadSettings
    most_publications: int = 4
    evaluation_store: bool = False


class Catalog:
    """Models of both kinds under one queue."""

    def __init__(
        self,
        manager: Manager,
        settings: CatalogSettings,
        registry: Registry,
        consumers: Consumers,
        clock: Clock,
    ) -> None:
        self._queue: KeyedQueue[Key] = KeyedQueue("catalog")
        self._informers = [_informer(manager, Model), _informer(manager, ClusterModel)]
        self._jobs = manager.informer(
            Job,
            namespace=settings.jobs.namespace,
            selectors={"labelSelector": f"{names.APP_LABEL}={names.PUBLICATION_APP}"},
        )
        self.board = TransferBoard(registry, clock)
        self.board.watch(names.TRANSFERS, needed=self._moving, changed=self._transfers_changed)
        self._slots = Slots(settings.most_publications, self._wake_queued)
        client = manager.client
        applier = Applier(client, MANAGER_NAME)
        handout = Handout(settings.uploads, settings.jobs.namespace)
        stores: dict[str, Store[AnyModel]] = {one.store.kind: one.store for one in self._informers}
        observer = Observer(
            client,
            registry,
            self.board,
            self._slots,
            models=stores,
            jobs=self._jobs.store,
            consumers=consumers,
            handout=handout,
            settings=settings.jobs,
            evaluation=settings.evaluation_store,
        )
        actor = Actor(client, applier, registry, self.board, self._slots, jobs=settings.jobs, handout=handout)
        reporter = Reporter(applier, Recorder(client, MANAGER_NAME))
        reconciler = Reconciler(client, registry, observer, actor, reporter=reporter, clock=clock)
        for informer in self._informers:
            informer.feed(self._queue, self._model_changed)
        self._jobs.feed(self._queue, self._job_changed)
        manager.add_controller(Controller("catalog", self._queue, reconciler.reconcile, workers=_WORKERS))
        sweeper = Sweeper(client, registry, list(stores.values()), self._jobs.store, clock)
        manager.add_task("catalog-sweep", sweeper.run, Stage.LEADING)
        manager.add_task("catalog-transfers", self.board.run, Stage.LEADING)

    def registry_changed(self) -> None:
        """Look again at everybody who waits for the registry."""
        for model in self._all():
            self._queue.add(Key.of(model), Priority.LOW)
        self.board.wake()

    def _model_changed(self, change: Change[AnyModel]) -> Iterable[Key]:
        """A model concerns itself, and when it leaves its place also everybody who waits for one."""
        self.board.wake()
        keys = [Key.of(change.sides[0])] if change.sides else []
        if change.before and _makes_way(change.before, change.after):
            keys += self._queued()
        return keys

    def _job_changed(self, change: Change[Job]) -> Iterable[Key]:
        """A Job concerns its model, and its end everybody who waits for a place."""
        uids = {job.metadata.labels.get(names.UID_LABEL, "") for job in change.sides}
        for uid in uids:
            self._slots.settled(uid, change.metadata.name)
        keys = [Key.of(model) for uid in uids for model in self._by_uid(uid)]
        if change.after is None or change.after.succeeded or change.after.failed:
            keys += self._queued()
        return keys

    def _transfers_changed(self, items: Iterable[TransferProgress]) -> None:
        for uid in {names.uid_of(item.id) for item in items} - {None}:
            for model in self._by_uid(str(uid)):
                self._queue.add(Key.of(model))

    def _queued(self) -> list[Key]:
        return [Key.of(model) for model in self._all() if _publishes(model)]

    def _wake_queued(self) -> None:
        for key in self._queued():
            self._queue.add(key)

    def _moving(self) -> bool:
        return any(model.status is not None and model.status.phase in _MOVING for model in self._all())

    def _by_uid(self, uid: str) -> list[AnyModel]:
        return [model for one in self._informers for model in one.store.by(_BY_UID, uid)]

    def _all(self) -> list[AnyModel]:
        return [model for one in self._informers for model in one.store.list()]


def _informer(manager: Manager, struct: type[AnyModel]) -> Informer[AnyModel]:
    return manager.informer(struct, indexes={_BY_UID: _uid})


def _uid(model: AnyModel) -> tuple[str]:
    return (model.metadata.uid,)


def _publishes(model: AnyModel) -> bool:
    return model.status is not None and model.status.phase == Phase.PUBLISHING


def _makes_way(before: AnyModel, after: AnyModel | None) -> bool:
    """Tell whether a model left the publications, or pauses after an attempt now."""
    if not _publishes(before):
        return False
    return after is None or not _publishes(after) or (_pauses(after) and not _pauses(before))


def _pauses(model: AnyModel) -> bool:
    publication = model.status.publication if model.status else None
    return publication is not None and publication.retry_at is not None
