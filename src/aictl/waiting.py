"""Following an order until its API answers or cannot come to do so.

What belongs here: what is said on the way, and when to give up. What does not: models (``follow``).

Only ``get`` on the one order is needed: who may read it may wait for it.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from aictl import orders
from aictl.exits import Exit, Failure
from aiinference.api.reasons import OrderPhase

if TYPE_CHECKING:
    from aictl.cluster import Session
    from aictl.show import Show
    from aiinference.api.orders import InferenceService

POLL_SECONDS = 0.5


async def until_ready(show: Show, at: Session, name: str, within: float) -> InferenceService:
    """Return the order as soon as its API answers, saying every new state once.

    Fails with ``IMPOSSIBLE`` when something has to change first, ``TIMED_OUT`` when the time is over.
    """
    deadline, last = time.monotonic() + within, ""
    while True:
        order = await orders.get_order(at, name)
        if _is_current(order):
            if orders.is_ready(order):
                return order
            give_up(order, at.namespace)
        if (line := state(order)) != last:
            show.note(line)
            last = line
        if time.monotonic() >= deadline:
            raise Failure(
                f"{orders.shown(name, at.namespace)} is not Ready after {within:.0f} s",
                line,
                f"`aictl why {name} -n {at.namespace}` tells more",
                code=Exit.TIMED_OUT,
            )
        await asyncio.sleep(POLL_SECONDS)


def give_up(order: InferenceService, namespace: str) -> None:
    """Fail when waiting does not help."""
    title, name = orders.shown(order.metadata.name, namespace), order.metadata.name
    if order.metadata.deleting:
        raise Failure(f"{title} is being deleted", "", "Order again when it is gone", code=Exit.IMPOSSIBLE)
    wrong = orders.in_the_way(order)
    known = orders.meaning(wrong.reason) if wrong else None
    failed = order.status is not None and order.status.phase == OrderPhase.FAILED
    if wrong and (failed or (known is not None and known.recovers is False)):
        raise Failure(
            f"{title} cannot become Ready ({wrong.reason})",
            wrong.message,
            f"`aictl why {name} -n {namespace}` tells the next step",
            code=Exit.IMPOSSIBLE,
        )


def state(order: InferenceService) -> str:
    """Return in one line what the order is doing."""
    status, wrong = order.status, orders.in_the_way(order)
    if status is None or wrong is None:
        return (status.phase if status else None) or "not looked at by a controller"
    starting = status.startup.phase if status.startup else ""
    return "  ".join(part for part in (status.phase or "", wrong.reason, starting, wrong.message) if part)


def document(order: InferenceService) -> dict[str, Any]:
    """Return an order as one JSON document with stable keys."""
    status, wrong = order.status, orders.in_the_way(order)
    endpoint = status.endpoint if status else None
    return {
        "kind": order.KIND.name,
        "namespace": order.metadata.namespace,
        "name": order.metadata.name,
        "phase": (status.phase if status else None) or "",
        "reason": wrong.reason if wrong else "Ready",
        "message": wrong.message if wrong else "",
        "url": endpoint.url if endpoint else None,
        "inClusterUrl": endpoint.in_cluster_url if endpoint else None,
        "authSecretName": status.auth_secret_name if status else None,
    }


def _is_current(order: InferenceService) -> bool:
    return order.status is not None and order.status.observed_generation == order.metadata.generation
