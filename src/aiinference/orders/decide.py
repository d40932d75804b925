"""What an order runs as. Pure: an observation in, the intent out.

What belongs here: whether anything is built, and from what. What does not: the objects themselves
(``aiinference.workload``) and what is said about them (``report``).
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from aiinference.api.orders import InferenceServiceStatus
from aiinference.api.reasons import Authentication, ExposureType, HttpsMode, UpdateStrategy
from aiinference.classes.policy import EffectivePolicy, Exposure, Https, effective
from aiinference.probes import deadline
from aiinference.workload import frozen, names, pods
from aiinference.workload.gate import KEYS_VOLUME
from aiinference.workload.intent import Intent, Upkeep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiinference.api.orders import InferenceService
    from aiinference.models.resolving import ResolvedModel
    from aiinference.orders.state import Observation
    from kubekit.resources import StatefulSet


def intent(o: Observation) -> Intent | None:
    """Return what the order runs as; None while anything stands in the way, and then nothing new is made."""
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
        startup_seconds=deadline.seconds(found.model.facts.size_bytes),
        replicas=found.policy.min_replicas,
    )


def upkeep(o: Observation) -> Upkeep | None:
    """Return how what runs is kept up while nothing new is decided; None when nothing runs."""
    if o.workload is None:
        return None
    known = o.order.status or InferenceServiceStatus()
    holds, says = o.resolved.policy, o.resolved.policy or o.resolved.says
    keys, had = some_ask(o), known.endpoint
    closed = says is not None and closes(says.exposure, o)
    # What a class said of certificates is not known while it does not hold: the Ingress stays as it is.
    opened = had is not None and had.type == ExposureType.EXTERNAL and holds is not None and not closed
    record = frozen.trusted(o.workload.metadata.annotations, o.records)
    return Upkeep(
        order=o.order,
        policy=_running(o.workload, holds, keys=keys, opened=opened),
        endpoint_type=known.model.endpoint_type if known.model else None,
        host=had.domain if opened and had and had.domain == o.host else None,
        replicas=_replicas(o, o.workload, holds),
        noted=o.workload.metadata.annotations,
        template=frozen.template(record) if record else None,
        closed=closed,
    )


def closes(exposure: Exposure, o: Observation) -> bool:
    """Tell whether a class wants nobody from outside to reach an order, as that runs now.

    What wants a key is closed while a replica that runs, or that the workload would make, asks for none; and
    while the workload that was made is gone: what replicas it has left behind is not known.
    """
    if exposure.type == ExposureType.CLUSTER_LOCAL:
        return True
    lost = o.workload is None and bool(o.records)
    return exposure.authentication == Authentication.TOKEN and (lost or not all(_asking(o)))


def is_shut(wanted: Intent | Upkeep, o: Observation) -> bool:
    """Tell whether an order has no Ingress, whatever it had before."""
    if isinstance(wanted, Upkeep):
        return wanted.closed
    return not wanted.host or closes(wanted.policy.exposure, o)


def some_ask(o: Observation) -> bool:
    """Tell whether a replica, of now or to come, needs the Secret with the order's key."""
    return any(_asking(o))


def _asking(o: Observation) -> Iterator[bool]:
    """Yield of the workload's template, and of every Pod that there is, whether it asks for a key."""
    if o.workload is not None:
        spec = o.workload.pod_template.get("spec", {})
        yield any(one.get("name") == KEYS_VOLUME for one in spec.get("volumes", ()))
    for pod in o.pods:
        yield any(one.name == KEYS_VOLUME for one in pod.spec.volumes)


def _running(
    workload: StatefulSet, holds: EffectivePolicy | None, *, keys: bool, opened: bool
) -> EffectivePolicy:
    """Return the policy that an order runs by."""
    base = holds or effective(None, Https(HttpsMode.DISABLED))
    strategy = workload.spec.update_strategy.type
    known = strategy if strategy in set(UpdateStrategy) else UpdateStrategy.ROLLING_UPDATE
    exposure = Exposure(
        ExposureType.EXTERNAL if opened else ExposureType.CLUSTER_LOCAL,
        Authentication.TOKEN if keys else Authentication.NONE,
        base.exposure.https,
    )
    return replace(base, exposure=exposure, update_strategy=holds.update_strategy if holds else known)


def _replicas(o: Observation, workload: StatefulSet, holds: EffectivePolicy | None) -> int:
    """Return how many replicas of what runs are kept up."""
    halt = o.resolved.halt
    if halt is not None and halt.waits and workload.spec.replicas == 0:
        return 0  # ended for a new launch (Recreate), which goes on with the answer that is on its way
    if holds is not None:
        return holds.min_replicas
    constraints = o.order.status.constraints if o.order.status else None
    return (constraints.min_replicas if constraints else None) or workload.spec.replicas or 1


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
    """Return how long a replica may take until it answers: of what runs, as the kubelet was told.

    The model's size is not known while the catalogue is asked; what was said must not change with that.
    """
    told = pods.startup_seconds(o.workload.pod_template) if o.workload else None
    return told or deadline.seconds(o.resolved.model.facts.size_bytes if o.resolved.model else None)


def must_stop_first(wanted: Intent, o: Observation) -> bool:
    """Tell whether replicas of an earlier launch have to be gone before the new one is written."""
    if o.workload is None or wanted.policy.update_strategy != UpdateStrategy.RECREATE:
        return False
    launched = o.workload.metadata.annotations.get(names.LAUNCH_ANNOTATION)
    return launched != frozen.launch_digest(wanted) and o.workload.status.replicas > 0
