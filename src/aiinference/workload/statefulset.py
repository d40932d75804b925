"""The StatefulSet of an order.

What belongs here: the object around the Pod template. What does not: the template (``pods``, ``frozen``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiinference.api.reasons import ModelKind, UpdateStrategy
from aiinference.workload import frozen, names, pods

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiinference.workload.intent import Intent, Served, Settings, Upkeep

#: Recreate too: whoever acts scales to zero before the new template, and then nothing is left to be rolled.
_STRATEGIES = {
    UpdateStrategy.ROLLING_UPDATE: "RollingUpdate",
    UpdateStrategy.RECREATE: "RollingUpdate",
    UpdateStrategy.ON_DELETE: "OnDelete",
}


def stateful_set(
    intent: Intent, settings: Settings, current: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the manifest; ``current`` are the annotations of the StatefulSet that runs already."""
    template = frozen.kept(intent, current) or pods.template(intent, settings)
    return _manifest(intent, template, {**_model(intent), **frozen.record(intent, template)})


def kept(upkeep: Upkeep) -> dict[str, Any] | None:
    """Return the manifest of what runs already, as it was made; None when that is not known."""
    if upkeep.template is None:
        return None
    noted = {name: value for name, value in upkeep.noted.items() if frozen.is_kept(name)}
    return _manifest(upkeep, upkeep.template, noted)


def _manifest(intent: Served, template: Mapping[str, Any], noted: dict[str, str]) -> dict[str, Any]:
    head = names.metadata(intent.order)
    head["annotations"] = noted
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": head,
        "spec": {
            "replicas": intent.replicas,
            "serviceName": intent.name,
            # Replicas do not know each other, and a broken one must not hold up the one that replaces it.
            "podManagementPolicy": "Parallel",
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": names.selector(intent.name)},
            "updateStrategy": {"type": _STRATEGIES[UpdateStrategy(intent.policy.update_strategy)]},
            "template": dict(template),
        },
    }


def _model(intent: Intent) -> dict[str, str]:
    """Ask ai-models to deliver the model; its files are mounted under the model's name."""
    reference = intent.order.spec.model.ref
    cluster = reference.kind == ModelKind.CLUSTER_MODEL
    return {names.CLUSTER_MODEL_ANNOTATION if cluster else names.MODEL_ANNOTATION: reference.name}
