"""What is known about one model in one namespace, gathered from the informers' stores.

What belongs here: reading. What does not: deciding (``decide``), or the cluster's state written anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aimodels.api.reasons import DeliveryBlockedReason
from aimodels.delivery import storageclass
from aimodels.delivery.names import DeliveryKey, copy_name, model_place, serial_of, serves
from aimodels.delivery.state import Blocked, Fill, Mount, Observation
from aimodels.delivery.template import read_marker
from aimodels.jobs.observed import JobPhase, ended, phase_of, pods_of, why_held
from kubekit.errors import KubeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aimodels.delivery.claims import Claim
    from aimodels.delivery.knowledge import Knowledge
    from aimodels.delivery.slots import Slots
    from aimodels.delivery.views import AnyWorkload, MountingPod
    from aimodels.jobs.manifest import JobSettings
    from aimodels.jobs.observed import Verdict
    from kubekit.client import Client
    from kubekit.resources import Job, StorageClass
    from kubekit.store import Store

MODEL_INDEX = "delivery-model"
CLAIM_INDEX = "delivery-claim"


class Observer:
    """Reads the stores of one process."""

    def __init__(
        self,
        client: Client,
        knowledge: Knowledge,
        slots: Slots,
        *,
        workloads: Mapping[str, Store[Any]],
        pods: Store[MountingPod],
        jobs: Store[Job],
        classes: Store[StorageClass],
        configured_class: str,
        copies: JobSettings,
    ) -> None:
        self._client = client
        self._knowledge = knowledge
        self._slots = slots
        self._workloads = workloads
        self._pods = pods
        self._jobs = jobs
        self._classes = classes
        self._configured_class = configured_class
        self._namespace, self._copies = copies.namespace, copies

    async def observe(self, key: DeliveryKey) -> Observation:
        """Return what is known now."""
        wanting = self.wanting(key)
        claims = self._knowledge.claims(key)
        return Observation(
            key=key,
            model=self._knowledge.model(key),
            wanted=bool(wanting),
            listed=max((serial for one in wanting if (serial := _listed(one, key))), default=None),
            mounts=tuple(Mount(one, self._used(one)) for one in claims if not one.filling),
            fills=tuple([await self._fill(one) for one in claims if one.filling]),
            storage_class=self._storage_class(),
            complete=not self._unreadable(),
            crowded=self._slots.crowded(key),
        )

    def wanting(self, key: DeliveryKey) -> list[AnyWorkload]:
        """Return the namespace's workloads that name the model."""
        return [
            workload for workload in self._naming(*key.model) if workload.metadata.namespace == key.namespace
        ]

    def targets(self, kind: str, namespace: str, name: str) -> set[DeliveryKey]:
        """Return where the model is wanted or has a claim."""
        wanting = self._naming(kind, namespace, name)
        wanted = {DeliveryKey(one.metadata.namespace, kind, name) for one in wanting}
        return wanted | self._knowledge.targets(kind, namespace, name)

    def consumers(self, kind: str, namespace: str, name: str) -> tuple[str, ...]:
        """Return who uses a model, as people write it: annotated workloads, and Pods that still mount it."""
        unreadable = self._unreadable()
        if unreadable:
            return (unreadable,)
        workloads = self._naming(kind, namespace, name)
        places = {workload.metadata.namespace for workload in workloads}
        users = [f"{one.KIND.name} {'/'.join(one.metadata.key)}" for one in workloads]
        for target in self._knowledge.targets(kind, namespace, name):
            if target.namespace not in places:
                claims = (claim for claim in self._knowledge.claims(target) if not claim.filling)
                pods = {pod.metadata.key for claim in claims for pod in self._users(claim)}
                users += [f"Pod {'/'.join(pod)}" for pod in sorted(pods)]
        return tuple(users)

    def copying(self) -> set[DeliveryKey]:
        """Return the deliveries whose copy is under way: whoever has no Job, or one that gave up, waits."""
        return {
            claim.target
            for claim in self._knowledge.fills()
            if not claim.deleting and phase_of(self._job(claim)) is JobPhase.ACTIVE
        }

    def _naming(self, kind: str, namespace: str, name: str) -> list[AnyWorkload]:
        place = model_place(kind, namespace, name)
        found = (one for store in self._workloads.values() for one in store.by(MODEL_INDEX, place))
        return [one for one in found if serves(one.metadata.namespace, self._namespace)]

    def _used(self, claim: Claim) -> bool:
        return bool(self._users(claim))

    def _users(self, claim: Claim) -> list[MountingPod]:
        return [*self._pods.by(CLAIM_INDEX, f"{claim.namespace}/{claim.name}")]

    def _job(self, fill: Claim) -> Job | None:
        return self._jobs.get(self._namespace, copy_name(fill.uid))

    async def _fill(self, claim: Claim) -> Fill:
        job = self._job(claim)
        phase = phase_of(job)
        if job is not None and phase is JobPhase.FAILED:
            return Fill(claim, phase, job.failed_at, await self._failure(job))
        if job is None or phase is not JobPhase.ACTIVE or job.status.ready:
            return Fill(claim, phase, running=job is not None)
        return Fill(claim, phase, held=await why_held(self._client, job, self._copies))

    async def _failure(self, job: Job) -> Blocked:
        """Return why the copy gave up, in the words that its last Pod left."""
        verdict = await self._last_words(job)
        if verdict is None or not verdict.reason:
            text = f"The copy Job {job.metadata.name} in {self._namespace} gave up; it is started again."
            said = f" Its last words: {verdict.message}" if verdict is not None else ""
            return Blocked(DeliveryBlockedReason.SHARED_PVC_MATERIALIZER_PENDING, text + said, hard=True)
        volume = verdict.reason != "ManifestInvalid"
        reason = (
            DeliveryBlockedReason.SHARED_PVC_CLAIM_PENDING
            if volume
            else DeliveryBlockedReason.SHARED_PVC_MATERIALIZER_PENDING
        )
        return Blocked(reason, f"{verdict.reason}: {verdict.message}", hard=True)

    async def _last_words(self, job: Job) -> Verdict | None:
        """Return what the newest of a copy's Pods has left that left anything; it only explains."""
        try:
            ends = ended(await pods_of(self._client, job))
        except KubeError:
            return None
        return next((one for one in reversed(ends) if one.reason or one.message), None)

    def _storage_class(self) -> str | Blocked:
        classes = self._classes.list()
        names = {one.metadata.name for one in classes}
        defaults = [one.metadata.name for one in classes if one.is_default]
        return storageclass.choose([self._configured_class], names, defaults)

    def _unreadable(self) -> str:
        """Return an object that could not be read, or nothing: nothing is deleted while there is one."""
        for store in (*self._workloads.values(), self._pods, self._knowledge.volumes):
            for key in store.undecodable:
                return f"{store.kind} {'/'.join(key)} (it cannot be read)"
        return ""


def _listed(workload: AnyWorkload, key: DeliveryKey) -> int | None:
    marker = read_marker(workload.pod_template)
    claim = marker.claim_of(key.reference) if marker is not None else None
    return serial_of(key.reference, claim) if claim is not None else None
