"""The manifest of a publication attempt's Job.

What belongs here: the Pod's shape. What does not: when it is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from aimodels.catalog import names
from modelio.registry.wire import AUDIENCE

if TYPE_CHECKING:
    from aimodels.catalog.names import Key

SERVICE_ACCOUNT = "ai-models-publication"
_USER = 64535
_TOKEN_SECONDS = 3600
#: logs of ended attempts stay readable for so long
_KEEP_SECONDS = 3600
_TOKEN_FOLDER = "/var/run/secrets/ai-models"  # noqa: S105 - a path
_TRUST_FOLDER = "/etc/ai-models/trust"


@dataclass(frozen=True)
class JobSettings:
    """What every Job of this installation has."""

    namespace: str
    image: str
    dmcr_url: str
    trust_config_map: str
    log_level: str = "info"


def publication_job(
    settings: JobSettings, key: Key, uid: str, generation: int, attempt: int
) -> dict[str, Any]:
    """Return the manifest of one attempt's Job: one Pod, no second try, nothing in Kubernetes to do."""
    name = names.publication_job(uid, generation, attempt)
    labels = {names.APP_LABEL: names.PUBLICATION_APP, names.UID_LABEL: uid, **names.MODULE_LABEL}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": settings.namespace,
            "labels": labels,
            "annotations": {names.MODEL_ANNOTATION: str(key)},
        },
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": _KEEP_SECONDS,
            "template": {
                "metadata": {"labels": labels, "annotations": {names.MODEL_ANNOTATION: str(key)}},
                "spec": _pod(settings, _environment(settings, key, uid, generation, attempt)),
            },
        },
    }


def _environment(settings: JobSettings, key: Key, uid: str, generation: int, attempt: int) -> dict[str, str]:
    return {
        "PUBLICATION_DMCR_URL": settings.dmcr_url,
        "PUBLICATION_CA_FILE": f"{_TRUST_FOLDER}/ca.crt",
        "PUBLICATION_TOKEN_FILE": f"{_TOKEN_FOLDER}/dmcr-token",
        "PUBLICATION_TRANSFER": names.publication_transfer(uid, generation, attempt),
        "PUBLICATION_REPOSITORY": names.repository(key),
        "PUBLICATION_MODEL_NAME": key.name,
        "PUBLICATION_SOURCE": msgspec.json.encode({"type": "Upload"}).decode(),
        "PUBLICATION_LOG_LEVEL": settings.log_level,
    }


def _pod(settings: JobSettings, environment: dict[str, str]) -> dict[str, Any]:
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
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(settings, environment)],
        "volumes": [
            {"name": "tmp", "emptyDir": {"sizeLimit": "256Mi"}},
            {"name": "trust", "configMap": {"name": settings.trust_config_map}},
            {
                "name": "token",
                "projected": {
                    "defaultMode": 0o440,
                    "sources": [
                        {
                            "serviceAccountToken": {
                                "audience": AUDIENCE,
                                "expirationSeconds": _TOKEN_SECONDS,
                                "path": "dmcr-token",
                            }
                        }
                    ],
                },
            },
        ],
    }


def _container(settings: JobSettings, environment: dict[str, str]) -> dict[str, Any]:
    return {
        "name": "publish",
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/python3", "-m", "aimodels.publication"],
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "terminationMessagePolicy": "File",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - inside the container
            {"name": "trust", "mountPath": _TRUST_FOLDER, "readOnly": True},
            {"name": "token", "mountPath": _TOKEN_FOLDER, "readOnly": True},
        ],
    }
