"""The manifest of a copy Job.

What belongs here: the Pod's shape. What does not: when it is made, or what the program in it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aimodels.delivery import names
from modelio.registry.wire import AUDIENCE
from modelkit.names import repository

if TYPE_CHECKING:
    from aimodels.delivery.claims import Claim

SERVICE_ACCOUNT = "ai-models-copy"
TARGET = "/target"
#: the program's word for "trying again cannot help"
PERMANENT_EXIT = 3
_USER = 64535
_ATTEMPTS = 6
_TOKEN_SECONDS = 3600
_TOKEN_FOLDER = "/var/run/secrets/ai-models"  # noqa: S105 a path
_TRUST_FOLDER = "/etc/ai-models/trust"


@dataclass(frozen=True)
class CopySettings:
    """What every copy Job of this installation has."""

    namespace: str
    image: str
    dmcr_url: str
    trust_config_map: str = "ai-models-trust"
    log_level: str = "info"


def copy_job(settings: CopySettings, fill: Claim) -> dict[str, Any]:
    """Return the manifest of the Job that copies a model into a claim.

    Its Pods follow each other with Kubernetes' back-off; a permanent failure ends it at once.
    """
    labels = {names.APP_LABEL: names.COPY_APP, **names.MODULE_LABEL}
    annotations = {names.TARGET_ANNOTATION: str(fill.target)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": names.copy_name(fill.uid),
            "namespace": settings.namespace,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "backoffLimit": _ATTEMPTS,
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailJob",
                        "onExitCodes": {
                            "containerName": "copy",
                            "operator": "In",
                            "values": [PERMANENT_EXIT],
                        },
                    },
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                ]
            },
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": _pod(settings, fill),
            },
        },
    }


def _pod(settings: CopySettings, fill: Claim) -> dict[str, Any]:
    return {
        "restartPolicy": "Never",
        "serviceAccountName": SERVICE_ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 10,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(settings, _environment(settings, fill))],
        "volumes": [
            {"name": "target", "persistentVolumeClaim": {"claimName": fill.name}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "256Mi"}},
            {"name": "trust", "configMap": {"name": settings.trust_config_map}},
            {"name": "token", "projected": {"defaultMode": 0o440, "sources": [_token()]}},
        ],
    }


def _token() -> dict[str, Any]:
    source = {"audience": AUDIENCE, "expirationSeconds": _TOKEN_SECONDS, "path": "dmcr-token"}
    return {"serviceAccountToken": source}


def _environment(settings: CopySettings, fill: Claim) -> dict[str, str]:
    target = fill.target
    return {
        "COPY_DMCR_URL": settings.dmcr_url,
        "COPY_CA_FILE": f"{_TRUST_FOLDER}/ca.crt",
        "COPY_TOKEN_FILE": f"{_TOKEN_FOLDER}/dmcr-token",
        "COPY_TRANSFER": names.copy_name(fill.uid),
        "COPY_REPOSITORY": repository(target.model_namespace or None, target.name),
        "COPY_DIGEST": fill.digest,
        "COPY_TARGET": TARGET,
        "COPY_LOG_LEVEL": settings.log_level,
    }


def _container(settings: CopySettings, environment: dict[str, str]) -> dict[str, Any]:
    return {
        "name": "copy",
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/python3", "-m", "aimodels.delivery.copy"],
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "terminationMessagePolicy": "File",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "target", "mountPath": TARGET},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 inside the container
            {"name": "trust", "mountPath": _TRUST_FOLDER, "readOnly": True},
            {"name": "token", "mountPath": _TOKEN_FOLDER, "readOnly": True},
        ],
    }
