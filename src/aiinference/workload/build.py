"""All objects of an order at once.

What belongs here: which objects there are, in the order in which they are applied. What does not: the Secret
with the key, which is made once and never applied again (``auth``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiinference.workload import auth, network, statefulset, upkeep
from aiinference.workload.intent import Upkeep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiinference.workload.intent import Intent, Settings


def objects(
    intent: Intent | Upkeep, settings: Settings, current: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Return the manifests; ``current`` are the annotations of the StatefulSet that runs already.

    The policy comes before the Pods that it is for, and the Pods before those who look for them.
    """
    made = [
        network.network_policy(intent, settings),
        auth.reader(intent.order) if intent.keys else None,
        network.service(intent),
        _workload(intent, settings, current),
        upkeep.disruption_budget(intent),
        network.ingress(intent, settings),
        upkeep.pod_monitor(intent, settings),
    ]
    return [manifest for manifest in made if manifest]


def _workload(
    intent: Intent | Upkeep, settings: Settings, current: Mapping[str, str] | None
) -> dict[str, Any] | None:
    if isinstance(intent, Upkeep):
        return statefulset.kept(intent)
    return statefulset.stateful_set(intent, settings, current)
