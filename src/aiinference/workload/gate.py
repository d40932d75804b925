"""The gate's container: what the image of that name is told.

What belongs here: its command line and its shape in the Pod. What does not: what it does with them
(``images/gate``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiinference.workload import names, paths

if TYPE_CHECKING:
    from aiinference.workload.intent import Intent, Settings

API_PORT, RUNTIME_PORT, METRICS_PORT, DRAIN_PORT = 8000, 8001, 8002, 8003
#: requests that may wait for their turn; fewer than a runtime has threads for, so that probes find one
WAITING = 96
ALIVE_PATH, HEALTH_PATH, METRICS_PATH = "/gate/alive", "/health", "/metrics"
RUN_VOLUME, KEYS_VOLUME = "gate", "keys"
_RUN_FOLDER, _KEYS_FOLDER = "/run/gate", "/etc/gate/keys"

HARDENED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def container(intent: Intent, settings: Settings) -> dict[str, Any]:
    """Return the sidecar, which starts before the runtime and ends after it."""
    alive = {"httpGet": {"path": ALIVE_PATH, "port": API_PORT}}
    mounts: list[dict[str, Any]] = [{"name": RUN_VOLUME, "mountPath": _RUN_FOLDER}]
    if intent.keys:
        mounts.append({"name": KEYS_VOLUME, "mountPath": _KEYS_FOLDER, "readOnly": True})
    return {
        "name": names.GATE,
        "image": settings.gate_image,
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        "command": _command(intent, settings),
        "ports": [
            {"name": "api", "containerPort": API_PORT, "protocol": "TCP"},
            {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
            {"name": "drain", "containerPort": DRAIN_PORT, "protocol": "TCP"},
        ],
        "startupProbe": {**alive, "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 60},
        "livenessProbe": {**alive, "periodSeconds": 20, "timeoutSeconds": 5, "failureThreshold": 6},
        "resources": {
            "requests": {"cpu": "20m", "memory": "48Mi", "ephemeral-storage": "16Mi"},
            "limits": {"memory": "256Mi"},
        },
        "securityContext": dict(HARDENED),
        "volumeMounts": mounts,
    }


def volumes(intent: Intent) -> list[dict[str, Any]]:
    """Return the volumes of the sidecar."""
    made: list[dict[str, Any]] = [{"name": RUN_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}]
    if intent.keys:
        secret = {"secretName": names.auth_secret(intent.name), "defaultMode": 0o440}
        made.append({"name": KEYS_VOLUME, "secret": secret})
    return made


def pre_stop(intent: Intent) -> dict[str, Any]:
    """Return the hook that holds the runtime until the gate has passed the last answer on."""
    return {"httpGet": {"path": names.drain_path(intent.order.metadata.uid), "port": DRAIN_PORT}}


def _requests(intent: Intent) -> list[str]:
    """Bound the requests on their way; half of the room is left to others than one client."""
    most = intent.plan.recipe.parallel + WAITING
    words = ["--requests", str(most), "--client-requests", str(most // 2)]
    return [*words, "--proxied"] if intent.proxied else words


def _command(intent: Intent, settings: Settings) -> list[str]:
    words = ["/usr/bin/python3", "-m", "gate"]
    for route in paths.of(intent.endpoint_type):
        words += ["--route", f"{route.method}={route.path}"]
    if intent.keys:
        words += ["--keys", _KEYS_FOLDER]
    return [
        *words,
        *("--upstream", f"127.0.0.1:{RUNTIME_PORT}"),
        *("--directory", _RUN_FOLDER),
        *("--body-limit", str(settings.body_limit_bytes)),
        *("--answer-seconds", str(settings.answer_seconds)),
        *_requests(intent),
        *("--drain-path", names.drain_path(intent.order.metadata.uid)),
    ]
