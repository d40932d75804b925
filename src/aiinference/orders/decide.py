"""What an order runs as. Pure: an observation in, the intent out.

What belongs here: whether anything is built, and from what. What does not: the objects themselves
(``aiinference.workload``) and what is said about them (``report``).
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from aiinference.api.reasons import UpdateStrategy
from aiinference.planner.asking import launch_request
from aiinference.probes import deadline
from aiinference.workload import frozen, names
from aiinference.workload.intent import Intent

if TYPE_CHECKING:
    from aiinference.api.orders import InferenceService
    from aiinference.classes.policy import EffectivePolicy
    from aiinference.models.resolving import ResolvedModel
    from aiinference.orders.state import Observation


def intent(o: Observation) -> Intent | None:
    """Return what the order runs as; None while anything stands in the way, and then nothing is touched."""
    found = o.resolved
    if found.halt is not None or found.policy is None or found.model is None or found.plan is None:
        return None
    return Intent(
        order=o.order,
        policy=found.policy,
        plan=found.plan,
        asked=_asked(o.order, found.policy, found.model),
        endpoint_type=found.model.resolution.endpoint_type,
        host=o.host,
        startup_seconds=startup_seconds(o),
        replicas=found.policy.min_replicas,
    )


def _asked(order: InferenceService, policy: EffectivePolicy, model: ResolvedModel) -> str:
    """Return the digest of what a plan is asked for; what the module itself allows is no part of it."""
    request = launch_request(order, policy, model.facts, model.resolution, runtime_fallback=True)
    return f"sha256:{sha256(msgspec.json.encode(request)).hexdigest()}"


def startup_seconds(o: Observation) -> int:
    """Return how long a replica may take until it answers."""
    return deadline.seconds(o.resolved.model.facts.size_bytes if o.resolved.model else None)


def must_stop_first(wanted: Intent, o: Observation) -> bool:
    """Tell whether replicas of an earlier launch have to be gone before the new one is written."""
    if o.workload is None or wanted.policy.update_strategy != UpdateStrategy.RECREATE:
        return False
    launched = o.workload.metadata.annotations.get(names.LAUNCH_ANNOTATION)
    return launched != frozen.launch_digest(wanted) and o.workload.status.replicas > 0
