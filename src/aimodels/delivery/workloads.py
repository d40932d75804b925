"""One workload: is its template as it should be, and what do its annotations say.

What belongs here: sending a workload through the webhook again, and telling how its models stand. What does
not: claims and copies (``deliveries``). The template itself is never written from here: an empty patch
makes the API server ask the webhook, so there is one place that changes templates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aimodels.api.reasons import DeliveryBlockedReason
from aimodels.delivery import references
from aimodels.delivery.names import DeliveryKey
from aimodels.delivery.references import InvalidReference
from aimodels.delivery.state import Blocked
from aimodels.delivery.template import InvalidTemplate
from aimodels.delivery.views import deliveries_of
from aimodels.delivery.webhook import pod_template
from kubekit.controller import Done
from kubekit.errors import Conflict, NotFound, Transient

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aimodels.delivery.knowledge import Knowledge
    from aimodels.delivery.names import WorkloadKey
    from aimodels.delivery.report import Outcomes, Reporter
    from aimodels.delivery.views import AnyWorkload
    from kubekit.client import Client
    from kubekit.store import Store

_UNHEARD = Blocked(
    DeliveryBlockedReason.SHARED_PVC_MATERIALIZER_PENDING,
    "The admission webhook of ai-models did not change the workload, so its Pods start without models. "
    "It is sent through again; an administrator looks at Deployment ai-models-api.",
    hard=True,
)


class WorkloadReconciler:
    """Reconciles workloads."""

    def __init__(
        self,
        client: Client,
        knowledge: Knowledge,
        outcomes: Outcomes,
        reporter: Reporter,
        *,
        workloads: Mapping[str, Store[Any]],
    ) -> None:
        self._client = client
        self._knowledge = knowledge
        self._outcomes = outcomes
        self._reporter = reporter
        self._workloads = workloads
        self._naming: set[WorkloadKey] = set()

    async def reconcile(self, key: WorkloadKey) -> Done:
        """Make template and annotations as they should be."""
        workload: AnyWorkload | None = self._workloads[key.kind].get(key.namespace, key.name)
        if workload is None or workload.metadata.deleting:
            self._naming.discard(key)
            return Done()
        await self._note_removal(key, workload)
        try:
            wanted = self._knowledge.template(
                key.namespace, workload.metadata.annotations, workload.pod_template
            )
        except InvalidReference as error:
            blocked = Blocked(error.reason, str(error), hard=True)
            await self._reporter.report(workload, blocked, invalid=True, delivered=False)
        except InvalidTemplate as error:
            blocked = Blocked(DeliveryBlockedReason.INVALID_SPEC, str(error), hard=True)
            await self._reporter.report(workload, blocked, invalid=False, delivered=False)
        else:
            await self._follow(workload, wanted)
        return Done()

    async def _follow(self, workload: AnyWorkload, wanted: Mapping[str, Any]) -> None:
        if workload.pod_template != wanted and not await self._send_through_webhook(workload, wanted):
            await self._reporter.report(workload, _UNHEARD, invalid=False, delivered=False)
            raise Transient("WebhookUnheard", "the admission webhook did not change the workload")
        deliveries = [DeliveryKey(*one) for one in deliveries_of(workload)]
        if not all(self._outcomes.known(one) for one in deliveries):
            return
        waiting = [blocked for one in deliveries if (blocked := self._outcomes.blocked(one)) is not None]
        first = min(waiting, key=lambda blocked: not blocked.hard, default=None)
        await self._reporter.report(workload, first, invalid=False, delivered=bool(deliveries))

    async def _send_through_webhook(self, workload: AnyWorkload, wanted: Mapping[str, Any]) -> bool:
        """Send an empty patch; tell whether the template is as it should be then."""
        try:
            answer = await self._client.patch(
                workload.KIND, workload.metadata.name, {}, namespace=workload.metadata.namespace
            )
        except (NotFound, Conflict):
            return True
        return pod_template(answer) == wanted

    async def _note_removal(self, key: WorkloadKey, workload: AnyWorkload) -> None:
        if references.named(workload.metadata.annotations):
            self._naming.add(key)
        elif key in self._naming:
            self._naming.discard(key)
            await self._reporter.removed(workload)
