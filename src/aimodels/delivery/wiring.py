"""Delivery in a process: informers to keys, keys to the reconcilers.

What belongs here: who tells whom. What does not: what is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aimodels.api.model import ClusterModel, Model
from aimodels.delivery.act import Actor, Registry
from aimodels.delivery.deliveries import DeliveryReconciler
from aimodels.delivery.knowledge import Knowledge, claim_indexes
from aimodels.delivery.names import (
    APP_LABEL,
    COPY_APP,
    ROLE_LABEL,
    TARGET_ANNOTATION,
    DeliveryKey,
    WorkloadKey,
    parse_target,
    serves,
)
from aimodels.delivery.observe import CLAIM_INDEX, MODEL_INDEX, Observer
from aimodels.delivery.report import Outcomes, Reporter
from aimodels.delivery.slots import Slots
from aimodels.delivery.views import (
    WORKLOADS,
    MountingPod,
    claim_index,
    deliveries_of,
    model_index,
    workload_key,
)
from aimodels.delivery.workloads import WorkloadReconciler
from kubekit.controller import Controller
from kubekit.events import Recorder
from kubekit.queue import KeyedQueue, Priority
from kubekit.resources import Job, PersistentVolumeClaim, StorageClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aimodels.delivery.views import AnyWorkload
    from aimodels.jobs.manifest import JobSettings
    from kubekit.informer import Informer
    from kubekit.manager import Manager
    from kubekit.store import Change
    from opskit.clock import Clock

COMPONENT = "ai-models-delivery"
_WORKERS = 8


@dataclass(frozen=True)
class DeliverySettings:
    """What delivery is told; an empty class means the cluster's default one."""

    copies: JobSettings
    storage_class: str = ""
    most_copies: int = 2


@dataclass(frozen=True)
class _Followed:
    """The informers of delivery."""

    models: Informer[Model]
    cluster_models: Informer[ClusterModel]
    workloads: Mapping[str, Informer[Any]]
    volumes: Informer[PersistentVolumeClaim]
    pods: Informer[MountingPod]
    jobs: Informer[Job]
    classes: Informer[StorageClass]


class Delivery:
    """Deliveries under one queue, workloads under another."""

    def __init__(
        self, manager: Manager, settings: DeliverySettings, registry: Registry, clock: Clock
    ) -> None:
        client, namespace = manager.client, settings.copies.namespace
        self._deliveries: KeyedQueue[DeliveryKey] = KeyedQueue("delivery")
        self._workload_queue: KeyedQueue[WorkloadKey] = KeyedQueue("workloads")
        self._module_namespace = namespace
        self._followed = followed = _follow(manager, namespace)
        self._knowledge = knowledge = Knowledge(
            followed.models.store, followed.cluster_models.store, followed.volumes.store, namespace
        )
        stores = {kind: informer.store for kind, informer in followed.workloads.items()}
        self._slots = Slots(settings.most_copies)
        self._observer = Observer(
            client,
            knowledge,
            self._slots,
            workloads=stores,
            pods=followed.pods.store,
            jobs=followed.jobs.store,
            classes=followed.classes.store,
            configured_class=settings.storage_class,
            copies=settings.copies,
        )
        outcomes = Outcomes(self._outcome_changed)
        actor = Actor(client, registry, self._observer, self._slots, settings.copies)
        deliveries = DeliveryReconciler(self._observer, actor, self._slots, outcomes, clock)
        workloads = WorkloadReconciler(
            client,
            knowledge,
            outcomes,
            Reporter(client, Recorder(client, COMPONENT)),
            workloads=stores,
        )
        self._listen()
        manager.add_controller(
            Controller("delivery", self._deliveries, deliveries.reconcile, workers=_WORKERS)
        )
        manager.add_controller(
            Controller("workloads", self._workload_queue, workloads.reconcile, workers=_WORKERS)
        )

    def consumers(self, kind: str, namespace: str, name: str) -> tuple[str, ...]:
        """Return the workloads and Pods that use a model, as people write them."""
        return self._observer.consumers(kind, namespace, name)

    def _listen(self) -> None:
        followed = self._followed
        for workload in followed.workloads.values():
            workload.subscribe(self._workload_changed)
        followed.models.feed(self._deliveries, self._model_changed)
        followed.cluster_models.feed(self._deliveries, self._model_changed)
        followed.volumes.subscribe(self._claim_changed)
        followed.pods.feed(self._deliveries, self._pod_changed)
        followed.jobs.feed(self._deliveries, self._job_changed)
        followed.classes.feed(self._deliveries, lambda _: self._all())

    def _workload_changed(self, change: Change[AnyWorkload], priority: Priority) -> None:
        if not serves(change.key[0], self._module_namespace):
            return
        for side in change.sides:
            self._workload_queue.add(workload_key(side), priority)
            for key in deliveries_of(side):
                self._deliveries.add(key, priority)

    def _model_changed(self, change: Change[Any]) -> Iterable[DeliveryKey]:
        keys: dict[DeliveryKey, None] = {}
        for model in change.sides:
            kind, (namespace, name) = model.KIND.name, model.metadata.key
            for key in self._observer.targets(kind, namespace, name):
                keys[key] = None
        return keys

    def _claim_changed(self, change: Change[PersistentVolumeClaim], priority: Priority) -> None:
        """A claim concerns its delivery, and the template of every workload that wants that."""
        for claim in filter(None, map(self._knowledge.read, change.sides)):
            self._deliveries.add(claim.target, priority)
            self._outcome_changed(claim.target)

    def _pod_changed(self, change: Change[MountingPod]) -> Iterable[DeliveryKey]:
        """A Pod that ended or went may have been the last one of its claims."""
        if change.before is None or (change.after is not None and change.after.claims):
            return []
        namespace = change.key[0]
        found = (self._followed.volumes.store.get(namespace, name) for name in change.before.claims)
        read = (self._knowledge.read(one) for one in found if one is not None)
        return [claim.target for claim in read if claim is not None]

    def _job_changed(self, change: Change[Job]) -> Iterable[DeliveryKey]:
        """A Job concerns its delivery, and its end everybody who waits for a place."""
        target = parse_target(change.metadata.annotations.get(TARGET_ANNOTATION, ""))
        keys = [target] if target is not None else []
        if change.after is None or change.after.succeeded or change.after.failed:
            keys += self._slots.waiting
        return keys

    def _outcome_changed(self, key: DeliveryKey) -> None:
        for workload in self._observer.wanting(key):
            self._workload_queue.add(workload_key(workload))

    def _all(self) -> Iterable[DeliveryKey]:
        for informer in self._followed.workloads.values():
            for workload in informer.store.list():
                yield from deliveries_of(workload)


def _follow(manager: Manager, namespace: str) -> _Followed:
    return _Followed(
        models=manager.informer(Model),
        cluster_models=manager.informer(ClusterModel),
        workloads={
            struct.KIND.name: manager.informer(struct, indexes={MODEL_INDEX: model_index})
            for struct in WORKLOADS
        },
        volumes=manager.informer(
            PersistentVolumeClaim,
            selectors={"labelSelector": ROLE_LABEL},
            indexes=claim_indexes(namespace),
        ),
        pods=manager.informer(MountingPod, indexes={CLAIM_INDEX: claim_index}),
        jobs=manager.informer(
            Job, namespace=namespace, selectors={"labelSelector": f"{APP_LABEL}={COPY_APP}"}
        ),
        classes=manager.informer(StorageClass),
    )


def setup(manager: Manager, settings: DeliverySettings, registry: Registry, clock: Clock) -> Delivery:
    """Have the manager deliver models; return who can say who uses one."""
    return Delivery(manager, settings, registry, clock)
