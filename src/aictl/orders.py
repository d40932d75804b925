"""Orders in the user's cluster: reading one, and what it says about itself.

What belongs here: what ``chat`` and ``why`` both need of an InferenceService. What does not: either command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aictl.cluster import refusal
from aictl.exits import Exit, Failure
from aiinference.api import meanings
from aiinference.api.orders import InferenceService
from kubekit.errors import KubeError, NotFound

if TYPE_CHECKING:
    from aictl.cluster import Session
    from kubekit.conditions import Condition
    from kubekit.vocabulary import Meaning


def shown(name: str, namespace: str) -> str:
    """Name an order in a message."""
    return f"InferenceService {namespace}/{name}"


async def find_order(at: Session, name: str) -> InferenceService | None:
    """Return the order, None when there is none; Failure when it cannot be read."""
    what = f"{shown(name, at.namespace)} cannot be read"
    try:
        return await at.answer(lambda: at.client.get(InferenceService, name, at.namespace))
    except NotFound as error:
        if f'"{name}" not found' in error.message:
            return None
        raise Failure(
            what,
            "This cluster does not know such objects",
            "Is ai-inference installed? `kubectl get crd inferenceservices.ai.deckhouse.io` tells",
            code=Exit.IMPOSSIBLE,
        ) from error
    except KubeError as error:
        raise refusal(error, what) from error


async def get_order(at: Session, name: str) -> InferenceService:
    """Return the order; Failure when there is none."""
    found = await find_order(at, name)
    if found is None:
        step = f"`kubectl get inferenceservices -n {at.namespace}` lists those that there are"
        raise Failure(f"There is no {shown(name, at.namespace)}", "", step, code=Exit.USAGE)
    return found


def in_the_way(order: InferenceService) -> Condition | None:
    """Return the first condition that does not hold, None when all do or nothing is said yet.

    What is only unknown, as scaling without metrics, comes after what is not so.
    """
    conditions = order.status.conditions if order.status else ()
    wrong = [one for one in conditions if one.status != "True"]
    return next((one for one in wrong if one.status == "False"), wrong[0] if wrong else None)


def is_ready(order: InferenceService) -> bool:
    """Tell whether the order's API answers."""
    conditions = order.status.conditions if order.status else ()
    return any(one.type == "Ready" and one.status == "True" for one in conditions)


def meaning(reason: str) -> Meaning | None:
    """Return what a reason of an order means."""
    return next((entry for word, entry in meanings.ORDER.items() if word == reason), None)
