"""The administrator's certificate beside every order that is served with it.

What belongs here: reading the one Secret that is named, and writing its copy. What does not: what either
has to be (``aiinference.workload.tls``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiinference.api.reasons import OrderCondition, OrderReason
from aiinference.orders.state import Halt
from aiinference.workload import names, tls
from kubekit.resources import Secret

if TYPE_CHECKING:
    from aiinference.workload.intent import Served
    from kubekit.apply import Applier
    from kubekit.client import Client
    from opskit.clock import Clock


class Certificates:
    """Keeps the copies as they should be."""

    def __init__(self, client: Client, applier: Applier, clock: Clock, namespace: str) -> None:
        self._client = client
        self._applier = applier
        self._clock = clock
        self._namespace = namespace

    async def see_to(self, intent: Served) -> Halt | None:
        """Make the order's copy; return what is in the way, and then the copy stays as it is."""
        if not tls.is_copied(intent):
            return None
        name = tls.original(intent)
        source = await self._client.find(Secret, name, self._namespace) if name else None
        wrong = tls.fault(intent, self._namespace, source, self._clock.now())
        if wrong is not None or source is None:
            return None if wrong is None else _halt(wrong.reason, wrong.message)
        present = await self._present(intent)
        if present is not None and not present.metadata.belongs_to(intent.order.metadata):
            return _halt(
                OrderReason.OBJECT_CONFLICT,
                f"Secret {present.metadata.name} is there already and is not this order's. Delete it, and "
                "the Certificate of that name if there is one, or rename the order.",
            )
        if present is None or not tls.is_current(present, source, intent.order):
            await self._applier.apply(tls.copy(intent.order, source))
        return None

    async def retire(self, intent: Served) -> None:
        """Delete the order's copy when it is served with it no more."""
        if tls.is_copied(intent):
            return
        found = await self._present(intent)
        if found is not None and found.metadata.belongs_to(intent.order.metadata):
            head = found.metadata
            await self._client.delete(Secret, head.name, head.namespace, uid=head.uid)

    async def _present(self, intent: Served) -> Secret | None:
        return await self._client.find(
            Secret, names.certificate(intent.name), intent.order.metadata.namespace
        )


def _halt(reason: OrderReason, message: str) -> Halt:
    return Halt(OrderCondition.RUNTIME_CURRENT, reason, message, passing=True)
