"""What people are told on a workload: the reason annotation, and events on transitions.

What belongs here: outcomes of deliveries, and writing them. What does not: the workload's template
(``workloads``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from aimodels.api.reasons import WorkloadEvent
from aimodels.delivery.names import BLOCKED_MESSAGE_ANNOTATION, BLOCKED_REASON_ANNOTATION
from kubekit.errors import Conflict, NotFound
from opskit import metrics

if TYPE_CHECKING:
    from collections.abc import Callable

    from aimodels.delivery.names import DeliveryKey
    from aimodels.delivery.state import Blocked
    from aimodels.delivery.views import AnyWorkload
    from kubekit.client import Client
    from kubekit.events import Recorder

_BLOCKED = metrics.gauge("deliveries_blocked", "Models that wait to be delivered, by reason.", ["reason"])

_MESSAGE_LIMIT = 512


class Outcomes:
    """How each delivery stands; the workloads that want it look again when that changes."""

    def __init__(self, changed: Callable[[DeliveryKey], None]) -> None:
        self._changed = changed
        self._known: dict[DeliveryKey, Blocked | None] = {}

    def tell(self, key: DeliveryKey, blocked: Blocked | None) -> None:
        """Note how the delivery stands now."""
        if key in self._known and self._known[key] == blocked:
            return
        self._count(self._known.get(key), -1)
        self._known[key] = blocked
        self._count(blocked, 1)
        self._changed(key)

    def forget(self, key: DeliveryKey) -> None:
        """Nobody wants the delivery any more."""
        self._count(self._known.pop(key, None), -1)

    def known(self, key: DeliveryKey) -> bool:
        """Tell whether the delivery was looked at since this process leads."""
        return key in self._known

    def blocked(self, key: DeliveryKey) -> Blocked | None:
        """Return what the delivery waits for; None when it is there."""
        return self._known.get(key)

    @staticmethod
    def _count(blocked: Blocked | None, by: int) -> None:
        if blocked is not None:
            _BLOCKED.labels(str(blocked.reason)).inc(by)


class Reporter:
    """Writes on workloads, and only what differs."""

    def __init__(self, client: Client, recorder: Recorder) -> None:
        self._client = client
        self._recorder = recorder

    async def report(
        self, workload: AnyWorkload, blocked: Blocked | None, *, invalid: bool, delivered: bool
    ) -> None:
        """Make the workload's annotations say what is, and record an event when the reason changed."""
        annotations = workload.metadata.annotations
        old = annotations.get(BLOCKED_REASON_ANNOTATION)
        new = str(blocked.reason) if blocked is not None else None
        message = blocked.message[:_MESSAGE_LIMIT] if blocked is not None else None
        if (old, annotations.get(BLOCKED_MESSAGE_ANNOTATION)) == (new, message):
            return
        written = {BLOCKED_REASON_ANNOTATION: new, BLOCKED_MESSAGE_ANNOTATION: message}
        try:
            await self._client.patch(
                workload.KIND,
                workload.metadata.name,
                {"metadata": {"uid": workload.metadata.uid, "annotations": written}},
                namespace=workload.metadata.namespace,
            )
        except (NotFound, Conflict):
            return
        if old != new:
            await self._transition(workload, blocked, invalid=invalid, delivered=delivered)

    async def removed(self, workload: AnyWorkload) -> None:
        """Record that the workload names no model any more."""
        text = "The workload names no model any more; its template is as its author wrote it."
        await self._event(workload, "Normal", WorkloadEvent.MODEL_DELIVERY_REMOVED, text)

    async def _transition(
        self, workload: AnyWorkload, blocked: Blocked | None, *, invalid: bool, delivered: bool
    ) -> None:
        if blocked is None:
            if delivered:
                text = "The models are in the namespace and mounted into the workload's Pods."
                await self._event(workload, "Normal", WorkloadEvent.MODEL_DELIVERY_APPLIED, text)
            return
        text = f"{blocked.reason}: {blocked.message}"
        if invalid:
            await self._event(workload, "Warning", WorkloadEvent.INVALID_MODEL_REFERENCE, text)
        elif blocked.hard:
            await self._event(workload, "Warning", WorkloadEvent.MODEL_DELIVERY_BLOCKED, text)
        else:
            await self._event(workload, "Normal", WorkloadEvent.MODEL_DELIVERY_PENDING, text)

    async def _event(
        self, workload: AnyWorkload, kind: Literal["Normal", "Warning"], event: WorkloadEvent, text: str
    ) -> None:
        await self._recorder.event(workload, kind, event, text)
