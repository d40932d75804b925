"""Which replica leads: a Lease object, judged by this process's own monotonic clock.

What belongs here: taking, renewing, losing and releasing. What does not: what the leader does.

Guarantees and assumptions: nobody compares clocks of two machines. A candidate takes over when the record
has not changed for its own ``duration`` seconds, or at once when it names an earlier process of the same Pod,
which the kubelet saw end before it started this one; the holder counts from the moment before it sent its
last successful renewal and acts for ``renew_within`` seconds from there, which with one ``request`` is less
than ``duration``. A holder that was frozen finds that out at its first step afterwards; controllers ask
``held`` before each reconcile.
"""

from __future__ import annotations

import asyncio
import random
import socket
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kubekit.errors import AlreadyExists, Conflict, KubeError, NotFound, fields_of
from kubekit.resources.control import Lease as LeaseRecord
from opskit import logging, metrics

if TYPE_CHECKING:
    from kubekit.client import Client

_log = logging.logger(__name__)

_LEADS = metrics.gauge("leader", "1 while this replica leads.", ["lease"])


class LeaseLost(Exception):
    """This replica does not lead any more and must stop acting at once."""


@dataclass(frozen=True)
class LeaseTiming:
    """Seconds: how long a silent holder is respected, when it gives up itself, the step, one request."""

    duration: float = 15.0
    renew_within: float = 10.0
    step: float = 2.0
    request: float = 3.0


class Lease:
    """One candidate for one Lease."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        alone: bool = False,
        timing: LeaseTiming | None = None,
    ) -> None:
        """``alone``: one process at a time has this identity, so that a holder of it before us has ended."""
        self.name = name
        self.identity = f"{identity}_{uuid.uuid4().hex[:8]}"
        self._alone = alone
        self._client = client
        self._namespace = namespace
        self._timing = timing or LeaseTiming()
        self._rng = random.SystemRandom()
        self._renewed_at: float | None = None
        self._written = False
        self._version = ""
        self._seen: tuple[str, float] | None = None

    def held(self) -> bool:
        """Tell whether this replica may act now."""
        return self._left() > 0

    def _left(self) -> float:
        """Return for how many seconds this replica may still act without another renewal."""
        if self._renewed_at is None:
            return 0.0
        return max(0.0, self._renewed_at + self._timing.renew_within - _now())

    async def acquire(self) -> None:
        """Return when this replica leads."""
        while True:
            started = _now()
            try:
                async with asyncio.timeout(self._timing.request):
                    taken = await self._try()
            except (KubeError, TimeoutError) as error:
                taken = False
                _log.warning("lease not reachable", lease=self.name, **fields_of(error))
            if taken:
                self._renewed_at = started
                _LEADS.labels(self.name).set(1)
                _log.info("leading", lease=self.name, identity=self.identity)
                return
            await asyncio.sleep(self._timing.step * self._rng.uniform(1.0, 1.2))

    async def hold(self) -> None:
        """Renew for ever; raise ``LeaseLost`` when that was not possible in time."""
        while True:
            await asyncio.sleep(min(self._timing.step, self._left()))
            if not self.held():
                raise self._lost("it was not renewed in time")
            started = _now()
            try:
                async with asyncio.timeout(self._timing.request):
                    await self._renew()
            except (KubeError, TimeoutError) as error:
                _log.warning("lease not renewed", lease=self.name, **fields_of(error))
            else:
                self._renewed_at = started

    async def release(self) -> None:
        """Let the next candidate take over at once; harmless when the lease is not held.

        What counts is whether the record names us: a claim whose answer was not awaited may be there.
        """
        if not self._written:
            return
        self._written = False
        self._renewed_at = None
        _LEADS.labels(self.name).set(0)
        try:
            async with asyncio.timeout(self._timing.request):
                await self._let_go()
        except (KubeError, TimeoutError) as error:
            _log.warning("lease not released", lease=self.name, **fields_of(error))

    async def _try(self) -> bool:
        record = await self._client.find(LeaseRecord, self.name, self._namespace)
        if record is None:
            return await self._create()
        holder = record.spec.holder_identity
        version = record.metadata.resource_version
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, _now())
        respected = record.spec.lease_duration_seconds or self._timing.duration
        over = not holder or holder == self.identity or self._was_ours(holder)
        if not over and _now() - self._seen[1] <= respected:
            return False
        self._version = version
        self._written = True
        try:
            transitions = (record.spec.lease_transitions or 0) + 1
            await self._write(self._spec() | {"acquireTime": _stamp(), "leaseTransitions": transitions})
        except Conflict:
            return False
        return True

    def _was_ours(self, holder: str) -> bool:
        """Tell whether an earlier process of this replica held it."""
        return self._alone and holder.rpartition("_")[0] == self.identity.rpartition("_")[0]

    async def _create(self) -> bool:
        manifest = {
            "apiVersion": LeaseRecord.KIND.api_version,
            "kind": LeaseRecord.KIND.name,
            "metadata": {"name": self.name, "namespace": self._namespace},
            "spec": self._spec() | {"acquireTime": _stamp(), "leaseTransitions": 0},
        }
        self._written = True
        try:
            made = await self._client.create(manifest)
        except AlreadyExists:
            return False
        self._version = made["metadata"]["resourceVersion"]
        return True

    async def _let_go(self) -> None:
        record = await self._client.find(LeaseRecord, self.name, self._namespace)
        if record is not None and record.spec.holder_identity == self.identity:
            self._version = record.metadata.resource_version
            await self._write({"holderIdentity": "", "leaseDurationSeconds": 1})

    async def _renew(self) -> None:
        spec = self._spec()
        try:
            await self._write(spec)
        except (Conflict, NotFound):
            record = await self._client.find(LeaseRecord, self.name, self._namespace)
            if record is None or record.spec.holder_identity != self.identity:
                holder = record.spec.holder_identity if record else "nobody"
                raise self._lost(f"{holder} holds it") from None
            self._version = record.metadata.resource_version
            await self._write(spec)

    async def _write(self, spec: dict[str, Any]) -> None:
        body = {"metadata": {"resourceVersion": self._version}, "spec": spec}
        made = await self._client.patch(LeaseRecord, self.name, body, namespace=self._namespace)
        self._version = made["metadata"]["resourceVersion"]

    def _spec(self) -> dict[str, Any]:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._timing.duration)),
            "renewTime": _stamp(),
        }

    def _lost(self, why: str) -> LeaseLost:
        self._renewed_at = None
        _LEADS.labels(self.name).set(0)
        return LeaseLost(f"the lease {self.name} is lost: {why}")


def lease_of_pod(client: Client, namespace: str, name: str, pod_uid: str) -> Lease:
    """Return the candidate that a Pod is, or without the Pod's uid a process of this machine."""
    identity = f"{socket.gethostname()}_{pod_uid}" if pod_uid else socket.gethostname()
    return Lease(client, namespace, name, identity, alone=bool(pod_uid))


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _now() -> float:
    return asyncio.get_running_loop().time()
