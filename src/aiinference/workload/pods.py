"""The Pod template of an order.

What belongs here: the runtime's container and the Pod around it. What does not: the gate's container, and
whether a running template is replaced (``frozen``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from aiinference.workload import gate, names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiinference.workload.intent import Intent, Settings

USER = 64535
_PROBE_SECONDS = 5
#: Nobody should wait for an answer that could be had. A kubelet asks again once the last question is over, so
#: a question takes no longer than the time between two, or a silent runtime would have several times as long.
_START_PROBE = {"periodSeconds": 1, "timeoutSeconds": 1}
_TMP = {"name": "tmp", "mountPath": "/tmp"}  # noqa: S108 inside the container


def template(intent: Intent, settings: Settings) -> dict[str, Any]:
    """Return the template as settings, gate and plan of today make it."""
    return {
        "metadata": {
            "labels": names.labels(intent.name),
            "annotations": {names.PLAN_ANNOTATION: intent.plan.digest},
        },
        "spec": _spec(intent, settings),
    }


def _spec(intent: Intent, settings: Settings) -> dict[str, Any]:
    optional = {
        "priorityClassName": intent.policy.priority_class,
        "nodeSelector": dict(settings.node_selector or {}),
        "tolerations": [dict(one) for one in settings.tolerations],
        "imagePullSecrets": [{"name": name} for name in settings.image_pull_secrets],
    }
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": settings.grace_seconds,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [_spread(intent)],
        "initContainers": [gate.container(intent, settings)],
        "containers": [_runtime(intent)],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}, *gate.volumes(intent)],
        **{field: value for field, value in optional.items() if value},
    }


def _spread(intent: Intent) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": names.selector(intent.name)},
    }


def startup_seconds(template: Mapping[str, Any]) -> int | None:
    """Return how long a replica of a template may take until it answers; None when that is not said."""
    containers = template.get("spec", {}).get("containers", [])
    runtime: dict[str, Any] = next((one for one in containers if one.get("name") == names.RUNTIME), {})
    probe = runtime.get("startupProbe")
    return int(probe["periodSeconds"]) * int(probe["failureThreshold"]) if probe else None


def _runtime(intent: Intent) -> dict[str, Any]:
    recipe = intent.plan.recipe
    memory = str(recipe.resources.memory_bytes)
    # Asked through the gate, since the runtime itself is heard inside the Pod only.
    asked = {"httpGet": {"path": gate.HEALTH_PATH, "port": gate.API_PORT}}
    health = {**asked, "timeoutSeconds": _PROBE_SECONDS}
    attempts = math.ceil(intent.startup_seconds / _START_PROBE["periodSeconds"])
    return {
        "name": names.RUNTIME,
        "image": recipe.image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(recipe.command),
        "env": [{"name": name, "value": value} for name, value in sorted(recipe.env.items())],
        "startupProbe": {**asked, **_START_PROBE, "failureThreshold": attempts},
        "readinessProbe": {**health, "periodSeconds": _PROBE_SECONDS, "failureThreshold": 3},
        # Long answers may keep every thread of a runtime busy, and that is no reason to end it.
        "livenessProbe": {**health, "periodSeconds": 30, "failureThreshold": 20},
        "lifecycle": {"preStop": gate.pre_stop(intent)},
        "resources": {
            "requests": {"cpu": recipe.resources.cpu, "memory": memory, "ephemeral-storage": "256Mi"},
            "limits": {"memory": memory},
        },
        "securityContext": dict(gate.HARDENED),
        # The last lines of a runtime that has ended, for those who may not read logs.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [dict(_TMP)],
    }
