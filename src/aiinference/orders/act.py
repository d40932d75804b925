"""Carrying out what an order runs as.

What belongs here: writes, and what the API server says to them. What does not: what is written
(``aiinference.workload``).

An object of the same name that is not the order's is never touched. What was applied is remembered for some
minutes, so that a reconcile that changes nothing writes nothing; then it is applied again, which repairs it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from aiinference.api.reasons import Authentication, OrderCondition, OrderReason
from aiinference.orders import decide, words
from aiinference.orders.certificates import Certificates
from aiinference.orders.ingresses import Ingress
from aiinference.orders.monitors import Monitors
from aiinference.orders.standing import Standing
from aiinference.orders.state import Halt
from aiinference.workload import auth, build, frozen, names, network, tls
from aiinference.workload.intent import Intent, Upkeep
from kubekit.apply import Applier
from kubekit.conditions import find
from kubekit.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound, fields_of
from kubekit.resources import Secret, StatefulSet, custom, kind_of
from kubekit.resources.meta import Resource
from opskit import logging

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Mapping

    from aiinference.api.orders import InferenceService
    from aiinference.orders.state import Observation
    from aiinference.workload.intent import Served, Settings
    from kubekit.client import Client
    from kubekit.resources.meta import Kind, ObjectMeta
    from opskit.clock import Clock

_log = logging.logger(__name__)

FIELD_MANAGER = "ai-inference-orders"
_KEY_BYTES = 32
#: of the head of an object that is changed: without its own labels and owner the policy lets nobody write it
_WRITTEN = ("annotations", "labels", "ownerReferences", "resourceVersion")
_T = TypeVar("_T")
_INGRESS = Ingress.KIND
_ROLE = custom("rbac.authorization.k8s.io", "v1", "Role", "roles")
_MONITOR = custom("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors")
custom("", "v1", "Service", "services")
custom("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
custom("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")


@dataclass(frozen=True, slots=True)
class _Meant:
    """The objects of an order as they should be."""

    manifests: list[dict[str, Any]]
    digest: str
    #: just so they were applied, and nobody has changed them
    stands: bool


class Actor:
    """Makes the objects of orders as they are meant."""

    def __init__(self, client: Client, settings: Settings, clock: Clock) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._applier = Applier(client, FIELD_MANAGER)
        self._certificates = Certificates(client, self._applier, clock, settings.namespace)
        self._monitors = Monitors(client, clock)
        self._standing = Standing(clock)

    def record(self, order: ObjectMeta) -> str | None:
        """Return the digest of what was written last of the making of an order's Pods."""
        return self._standing.record(order)

    def forget(self, key: tuple[str, str]) -> None:
        """Remember nothing more of an order that is gone."""
        self._standing.forget(key)

    async def act(self, intent: Intent | Upkeep, o: Observation) -> Halt | float | None:
        """Make key and objects; return what is in the way, or when to look at the key again."""
        return await _tried(intent.order, self._made(intent, o))

    async def _made(self, intent: Intent | Upkeep, o: Observation) -> Halt | float | None:
        """Close what is to be closed, then make the rest; without key or certificate keep up what runs."""
        order, meant = intent.order, await self._meant(intent, o)
        left = None if meant.stands else await _tried(order, self._retire(intent, o))
        stop = await _tried(order, self._certificates.see_to(intent)) or left
        is_new = o.workload is None
        again = None if stop and is_new else await _tried(order, self._key(intent, o))
        stop = again if isinstance(again, Halt) else stop
        if stop is None:
            return await self._apply(intent, o, meant) or again
        kept = decide.upkeep(o)
        if kept is not None:
            await self._apply(kept, o, await self._meant(kept, o), whole=left is None)
        return replace(stop, is_open=left is not None)

    async def _meant(self, intent: Intent | Upkeep, o: Observation) -> _Meant:
        current = frozen.trusted(o.workload.metadata.annotations, o.records) if o.workload else None
        without = set() if await self._monitors.known() else {_MONITOR.name}
        if decide.is_shut(intent, o):
            without.add(_INGRESS.name)
        made = build.objects(intent, self._settings, current)
        manifests = [manifest for manifest in made if manifest["kind"] not in without]
        gone = [(kind.name, name) for kind, name in _retired(intent, o)]
        # A template that was kept has its fields in another order than one that is made.
        said = msgspec.json.encode([manifests, gone, _retires_copy(intent)], order="sorted")
        digest = sha256(said).hexdigest()
        stands = self._standing.stands(intent.order.metadata, digest, o.workload)
        return _Meant(manifests, digest, stands)

    async def _key(self, intent: Served, o: Observation) -> Halt | float | None:
        """See to the order's key; return when to look again, or what is in the way."""
        if not intent.keys:
            return None
        if o.unread is not None:
            what = f"The Secret {names.auth_secret(intent.name)} with the order's key cannot be read"
            return _refused(o.unread, intent.order, what)
        now = self._clock.now()
        wanted = auth.plan(intent.order, o.secret, now, lambda: secrets.token_urlsafe(_KEY_BYTES))
        if wanted.step is auth.Step.CONFLICT:
            return _halt(OrderReason.OBJECT_CONFLICT, wanted.message)
        if wanted.step is auth.Step.WAIT:
            return replace(_halt(OrderReason.OBJECT_CONFLICT, wanted.message), soon=True)
        if wanted.step is auth.Step.CREATE and wanted.manifest is not None:
            await self._client.create(wanted.manifest)
        if wanted.step is auth.Step.REPLACE and wanted.manifest is not None:
            await self._replace(wanted.manifest)
        return wanted.again.total_seconds() if wanted.again is not None else None

    async def _replace(self, manifest: Mapping[str, Any]) -> None:
        head = manifest["metadata"]
        data = {name: manifest["data"].get(name) for name in (auth.TOKEN, auth.PREVIOUS)}
        changed = {name: head[name] for name in _WRITTEN if name in head}
        body = {"metadata": changed, "data": data}
        await self._client.patch(Secret, head["name"], body, namespace=head["namespace"])

    async def _apply(
        self, intent: Intent | Upkeep, o: Observation, meant: _Meant, *, whole: bool = True
    ) -> Halt | None:
        """Apply the order's objects; return what an object of somebody else is in the way of.

        Not ``whole`` while something is there that has to be gone: then it is all tried again next time.
        """
        if isinstance(intent, Intent) and decide.must_stop_first(intent, o):
            return await self._stop(intent)
        if meant.stands:
            return None
        needed = [manifest for manifest in meant.manifests if manifest["kind"] != _MONITOR.name]
        refused = await self._foreign(needed, intent.order)
        if refused is not None:
            return refused
        head, record = intent.order.metadata, None
        generation = o.workload.metadata.generation if o.workload else 0
        for manifest in needed:
            made = await self._applier.apply(manifest)
            if manifest["kind"] == StatefulSet.KIND.name:
                generation = made["metadata"]["generation"]
                record = self._standing.made(head, manifest["metadata"]["annotations"])
        await self._monitor(meant.manifests, intent)
        if whole:
            self._standing.applied(head, meant.digest, generation, record)
        return None

    async def _stop(self, intent: Intent) -> Halt:
        head, place = names.metadata(intent.order), intent.order.metadata.namespace
        body = {"metadata": {name: head[name] for name in _WRITTEN if name in head}, "spec": {"replicas": 0}}
        await self._client.patch(StatefulSet, intent.name, body, namespace=place)
        text = "The replicas of the earlier launch end before the new ones begin (updatePolicy Recreate)."
        return Halt(OrderCondition.RUNTIME_CURRENT, OrderReason.UPDATING, text)

    async def _foreign(self, manifests: list[dict[str, Any]], order: InferenceService) -> Halt | None:
        """Return what is in the way: an object of a name that we need, made by somebody else."""
        for manifest in manifests:
            kind, head = kind_of(manifest), manifest["metadata"]
            found = await self._head(kind, head["namespace"], head["name"])
            if found is None or found.belongs_to(order.metadata):
                continue
            what = f"{kind.name} {head['name']} is"
            if names.is_of_earlier(order, found):
                text = f"{what} of an earlier order of this name and is about to be deleted with it."
                return replace(_halt(OrderReason.OBJECT_CONFLICT, text), soon=True)
            text = f"{what} there already and is not this order's. Rename the order, or delete that object."
            return _halt(OrderReason.OBJECT_CONFLICT, text)
        return None

    async def _retire(self, intent: Intent | Upkeep, o: Observation) -> None:
        """Delete objects of the order that it has no more, before anything else is tried: that closes it."""
        place = intent.order.metadata.namespace
        for kind, name in _retired(intent, o):
            found = await self._head(kind, place, name)
            if found is not None and found.belongs_to(intent.order.metadata):
                await self._client.delete(kind, name, place, uid=found.uid)
        if _retires_copy(intent):
            await self._certificates.retire(intent)

    async def _monitor(self, manifests: list[dict[str, Any]], intent: Served) -> None:
        """Have metrics read where that is possible; what cannot be watched is served all the same."""
        wanted = [manifest for manifest in manifests if manifest["kind"] == _MONITOR.name]
        try:
            refused = await self._foreign(wanted, intent.order)
            if refused is not None:
                _log.warning("metrics are not read", order=intent.name, err=refused.message)
                return
            for manifest in wanted:
                await self._applier.apply(manifest)
        except ApiError as error:
            _log.warning("metrics are not read", order=intent.name, **fields_of(error))

    async def _head(self, kind: Kind, namespace: str, name: str) -> ObjectMeta | None:
        try:
            body = await self._client.request("GET", kind.path(namespace, name))
        except NotFound:
            return None
        return msgspec.json.decode(body, type=Resource).metadata


async def _tried(order: InferenceService, step: Awaitable[_T]) -> _T | Halt:
    """Return what a step returns, or what the API server says to it."""
    try:
        return await step
    except (Conflict, AlreadyExists):
        raise  # what was read is old: looked at anew
    except ApiError as error:
        return _refused(error, order, "The API server refuses an object of the order")


def _refused(error: ApiError, order: InferenceService, what: str) -> Halt:
    """Return what is said of an error; of a quota and of a rule with the numbers of now."""
    text = f"{what}: {error}"
    said = find(order.status.conditions if order.status else (), OrderCondition.RUNTIME_CURRENT)
    exact = isinstance(error, Forbidden | Invalid)
    halt = _halt(OrderReason.OBJECT_REFUSED, text if exact else words.unless_new(text, said))
    return replace(halt, soon=error.transient and not isinstance(error, Forbidden))


def _retired(intent: Intent | Upkeep, o: Observation) -> Iterator[tuple[Kind, str]]:
    """Yield kind and name of what an order has no more."""
    if decide.is_shut(intent, o):
        yield _INGRESS, intent.name
    policy = intent.policy if isinstance(intent, Intent) else o.resolved.policy
    wanted = policy is None or policy.exposure.authentication == Authentication.TOKEN
    if not intent.keys and not wanted:
        yield _ROLE, names.auth_reader(intent.name)


def _retires_copy(intent: Intent | Upkeep) -> bool:
    """Tell whether an order has no copy of a certificate any more; of what is left as it is nobody knows."""
    known = isinstance(intent, Intent) or intent.closed or not network.is_local(intent)
    return known and not tls.is_copied(intent)


def _halt(reason: OrderReason, message: str) -> Halt:
    return Halt(OrderCondition.RUNTIME_CURRENT, reason, message, passing=True)
