"""Carrying out a delivery's plan.

What belongs here: one method per action, each repeatable. What does not: choosing (``decide``), telling
(``report``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from aimodels.api.reasons import DeliveryBlockedReason
from aimodels.delivery import claims, handover
from aimodels.delivery.job import SERVICE_ACCOUNT, copy_job
from aimodels.delivery.names import claim_name, copy_name
from aimodels.delivery.state import (
    AbandonFill,
    Action,
    Blocked,
    DeleteClaim,
    FinishHandOver,
    HandOver,
    RestartCopy,
    StartCopy,
    StartFill,
    StepBack,
)
from kubekit.errors import AlreadyExists, Conflict, Forbidden, Invalid, Transient
from kubekit.resources import Job, PersistentVolumeClaim
from modelio.registry import RegistryError, TransferSpec
from modelkit.names import repository
from opskit import logging

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aimodels.delivery.claims import Claim
    from aimodels.delivery.names import DeliveryKey
    from aimodels.delivery.observe import Observer
    from aimodels.delivery.slots import Slots
    from aimodels.jobs.manifest import JobSettings
    from kubekit.client import Client, Propagation
    from modelio.registry import RegistryClient


#: A copy that nobody has waited for any more ends by itself; whoever wants it allows it anew.
_IDLE_SECONDS = 24 * 3600

_log = logging.logger(__name__)


class Registry(Protocol):
    """DMCR as the process knows it."""

    async def client(self) -> RegistryClient:
        """Return the client, waiting for certificates if need be."""
        ...

    def answered(self) -> None:
        """Note that the registry did what it was asked."""
        ...

    def failed(self, error: RegistryError) -> None:
        """Note that it did not."""
        ...


class Actor:
    """Writes to the cluster and to the registry."""

    def __init__(
        self, client: Client, registry: Registry, observer: Observer, slots: Slots, settings: JobSettings
    ) -> None:
        self._client = client
        self._registry = registry
        self._observer = observer
        self._slots = slots
        self._settings = settings

    async def carry_out(self, key: DeliveryKey, action: Action) -> Blocked | None:
        """Do it; return what stands in its way, which the workloads are told then."""
        match action:
            case StartFill():
                return await self._start_fill(key, action)
            case StartCopy():
                waits = self._take_place(key)
                return waits or await self._start_copy(action.fill, action.size_bytes)
            case RestartCopy():
                await self._restart_copy(key, action.fill)
            case StepBack():
                await self._step_back(action)
            case HandOver():
                return await handover.hand_over(self._client, action.fill)
            case FinishHandOver():
                await self._finish(action.fill)
            case AbandonFill():
                await self._abandon(action.fill)
            case DeleteClaim():
                await self._remove(action.claim)
        return None

    async def _start_fill(self, key: DeliveryKey, action: StartFill) -> Blocked | None:
        contents = claims.Contents(
            target=key,
            serial=action.serial,
            digest=action.digest,
            storage_class=action.storage_class,
            requested=str(claims.size_for(action.size_bytes)),
        )
        refused = await handover.ask_quota(self._client, claims.user_claim(contents))
        if refused is not None:
            self._slots.leave(key)
            return refused
        waits = self._take_place(key)
        if waits is not None:
            return waits
        manifest = claims.fill_claim(contents, self._settings.namespace)
        name = manifest["metadata"]["name"]
        try:
            refused = await self._make(key, manifest, DeliveryBlockedReason.SHARED_PVC_CLAIM_PENDING)
        except BaseException:
            self._slots.leave(key)
            raise
        if refused is not None:
            return refused
        _log.info("copy begun", claim=name, digest=action.digest, bytes=action.size_bytes)
        namespace = self._settings.namespace
        fill = claims.read(await self._client.get(PersistentVolumeClaim, name, namespace), namespace)
        if fill is not None and not fill.deleting:
            return await self._start_copy(fill, action.size_bytes)
        return None

    async def _make(
        self, key: DeliveryKey, manifest: dict[str, Any], reason: DeliveryBlockedReason
    ) -> Blocked | None:
        """Make an object of the module's namespace, or leave the place and return why it is not taken."""
        try:
            await self._client.create(manifest)
        except AlreadyExists:
            return None
        except (Forbidden, Invalid) as error:
            self._slots.leave(key)
            kind, namespace = manifest["kind"], self._settings.namespace
            text = (
                f"The namespace {namespace} of the module does not take the copy's {kind}: {error.message}. "
                "An administrator raises its quota or corrects its policy; delivery goes on by itself."
            )
            return Blocked(reason, text, hard=True)
        return None

    def _take_place(self, key: DeliveryKey) -> Blocked | None:
        if self._slots.take(key, self._observer.copying()):
            return None
        return Blocked(
            DeliveryBlockedReason.SHARED_PVC_MATERIALIZER_PENDING,
            f"{key.reference} waits for its turn: at most {self._slots.limit} models are copied at once."
            f"{self._slots.why(key)}",
        )

    async def _restart_copy(self, key: DeliveryKey, fill: Claim) -> None:
        """Delete the Job that gave up, once there is a place; until then what it said goes on being told."""
        if self._take_place(key) is None:
            _log.warning("copy gave up and is started again", claim=fill.name)
            await self._delete_job(fill, wait_for_pods=True)

    async def _step_back(self, action: StepBack) -> None:
        """Delete a Job whose Pod never ran, and stand behind those who wait."""
        _log.warning("copy gives up its place", claim=action.fill.name, why=action.why)
        self._slots.step_back(action.fill.target, action.why)
        await self._delete_job(action.fill, wait_for_pods=False)

    async def _start_copy(self, fill: Claim, size_bytes: int) -> Blocked | None:
        name = copy_name(fill.uid)
        spec = TransferSpec(
            service_account=f"{self._settings.namespace}/{SERVICE_ACCOUNT}",
            repository=repository(fill.target.model_namespace or None, fill.target.name),
            purpose="copy",
            pod_prefix=name,
            actions=("pull",),
            digest=fill.digest,
            expected_bytes=size_bytes,
            idle_seconds=_IDLE_SECONDS,
        )
        await self._ask(lambda registry: registry.put_transfer(name, spec))
        pending = DeliveryBlockedReason.SHARED_PVC_MATERIALIZER_PENDING
        return await self._make(fill.target, copy_job(self._settings, fill), pending)

    async def _finish(self, fill: Claim) -> None:
        await handover.restore(self._client, fill)
        await self._delete_job(fill, wait_for_pods=False)
        await self._ask(lambda registry: registry.revoke_transfer(copy_name(fill.uid)))
        await self._delete_claim(fill)
        _log.info("model delivered", claim=claim_name(fill.target.reference, fill.serial), volume=fill.volume)

    async def _abandon(self, fill: Claim) -> None:
        _log.info("copy given up", claim=fill.name)
        self._slots.leave(fill.target)
        await self._delete_job(fill, wait_for_pods=False)
        await self._ask(lambda registry: registry.revoke_transfer(copy_name(fill.uid)))
        await handover.take_back(self._client, fill)
        await self._delete_claim(fill)

    async def _delete_job(self, fill: Claim, *, wait_for_pods: bool) -> None:
        name = copy_name(fill.uid)
        propagation: Propagation = "Foreground" if wait_for_pods else "Background"
        await self._client.delete(Job, name, self._settings.namespace, propagation=propagation)

    async def _remove(self, claim: Claim) -> None:
        _log.info("claim is not needed any more", claim=f"{claim.namespace}/{claim.name}")
        await self._delete_claim(claim)

    async def _delete_claim(self, claim: Claim) -> None:
        try:
            await self._client.delete(PersistentVolumeClaim, claim.name, claim.namespace, uid=claim.uid)
        except Conflict:
            return

    async def _ask(self, call: Callable[[RegistryClient], Awaitable[None]]) -> None:
        registry = await self._registry.client()
        try:
            await call(registry)
        except RegistryError as error:
            self._registry.failed(error)
            raise Transient("StorageUnavailable", f"the registry does not answer: {error}") from error
        self._registry.answered()
