"""What an order needs while it runs: not to be evicted all at once, and somebody who reads its metrics.

What belongs here: PodDisruptionBudget and PodMonitor. What does not: scaling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiinference.workload import gate, names

if TYPE_CHECKING:
    from aiinference.workload.intent import Served, Settings


def disruption_budget(intent: Served) -> dict[str, Any]:
    """Return the budget: one replica at a time is moved, and one that does not work is in nobody's way."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": names.metadata(intent.order),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": names.selector(intent.name)},
        },
    }


def pod_monitor(intent: Served, settings: Settings) -> dict[str, Any] | None:
    """Return what tells Prometheus where the runtime's metrics are, if somebody may read them."""
    if not settings.monitoring_namespaces:
        return None
    endpoint = {"port": "metrics", "path": gate.METRICS_PATH, "scheme": "http"}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": names.metadata(intent.order),
        "spec": {
            "selector": {"matchLabels": names.selector(intent.name)},
            "podTargetLabels": [names.ORDER_LABEL],
            "podMetricsEndpoints": [endpoint],
        },
    }
