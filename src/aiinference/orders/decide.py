"""What an order runs as. Pure: an observation in, the intent out.

What belongs here: whether anything is built, and from what. What does not: the objects themselves
(``aiinference.workload``) and what is said about them (``report``).
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from aiinference.api.reasons import UpdateStrategy
from aiinference.probes import deadline
from aiinference.workload import frozen, names
from aiinference.workload.intent import Intent

if TYPE_CHECKING:
    from aiinference.api.orders import InferenceService
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
        asked=_asked(o.order, found.model),
        endpoint_type=found.model.resolution.endpoint_type,
        host=o.host,
        startup_seconds=startup_seconds(o),
        replicas=found.policy.min_replicas,
    )


def _asked(order: InferenceService, model: ResolvedModel) -> str:
    """Return the digest of what the order asks for.

    What is known of the model beside its digest, and what the class allows, may change while the order runs:
    neither is a reason to start it again.
    """
    facts, wanted = model.facts, order.spec.resources
    asked = {
        "model": [facts.scope, facts.namespace, facts.name, facts.digest],
        "endpointType": model.resolution.endpoint_type,
        "launchStrategy": order.spec.launch_strategy,
        "deviceClasses": sorted(wanted.accelerator.device_classes) if wanted and wanted.accelerator else [],
    }
    return f"sha256:{sha256(msgspec.json.encode(asked)).hexdigest()}"


def startup_seconds(o: Observation) -> int:
    """Return how long a replica may take until it answers."""
    return deadline.seconds(o.resolved.model.facts.size_bytes if o.resolved.model else None)


def must_stop_first(wanted: Intent, o: Observation) -> bool:
    """Tell whether replicas of an earlier launch have to be gone before the new one is written."""
    if o.workload is None or wanted.policy.update_strategy != UpdateStrategy.RECREATE:
        return False
    launched = o.workload.metadata.annotations.get(names.LAUNCH_ANNOTATION)
    return launched != frozen.launch_digest(wanted) and o.workload.status.replicas > 0
