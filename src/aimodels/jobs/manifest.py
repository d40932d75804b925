"""The manifest of a Job: one restricted Pod with one container, a token for DMCR and the trust in it.

What belongs here: what every Job's Pod has. What does not: which Jobs there are, or when one is made.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from kubekit.placement import Placement
from modelio.wire import AUDIENCE

if TYPE_CHECKING:
    from collections.abc import Mapping

#: the fingerprint of the settings that a Job was made with
MADE_WITH_ANNOTATION = "ai.deckhouse.io/job-settings"

_FINGERPRINT = 16
_USER = 64535
_TOKEN_SECONDS = 3600
_TOKEN_FOLDER = "/var/run/secrets/ai-models"  # noqa: S105 - a path
_TRUST_FOLDER = "/etc/ai-models/trust"
_RESOURCES = {
    "requests": {"cpu": "50m", "memory": "128Mi", "ephemeral-storage": "50Mi"},
    "limits": {"memory": "512Mi"},
}


@dataclass(frozen=True)
class JobSettings:
    """What every Job of this installation has."""

    namespace: str
    image: str
    dmcr_url: str
    trust_config_map: str = "ai-models-trust"
    log_level: str = "info"
    placement: Placement = field(default_factory=Placement)


@dataclass(frozen=True)
class Transfer:
    """What a Job's Pod may ask of DMCR: a transfer, and the repository that it is about."""

    name: str
    repository: str


@dataclass(frozen=True)
class Work:
    """What one Job is for: its program, on whose behalf, and what else its Pod has.

    ``prefix`` begins the program's variables; ``claims`` are mounted claims by their path; ``policy`` are the
    fields of the Job's spec that say what follows from an end.
    """

    name: str
    container: str
    program: str
    service_account: str
    prefix: str
    transfer: Transfer
    variables: Mapping[str, str]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    policy: Mapping[str, Any]
    claims: Mapping[str, str] = field(default_factory=dict)


def job(settings: JobSettings, work: Work) -> dict[str, Any]:
    """Return the manifest."""
    told = {"labels": dict(work.labels), "annotations": dict(work.annotations)}
    made_with = {MADE_WITH_ANNOTATION: fingerprint(settings)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": work.name,
            "namespace": settings.namespace,
            "labels": dict(work.labels),
            "annotations": {**work.annotations, **made_with},
        },
        "spec": {**work.policy, "template": {"metadata": told, "spec": _pod(settings, work)}},
    }


def fingerprint(settings: JobSettings) -> str:
    """Return what tells apart the settings that decide whether a Pod can run: its image and its nodes."""
    deciding = {"image": settings.image, **settings.placement.fields()}
    return hashlib.sha256(msgspec.json.encode(deciding, order="deterministic")).hexdigest()[:_FINGERPRINT]


def _pod(settings: JobSettings, work: Work) -> dict[str, Any]:
    claims = [
        {"name": _volume(path), "persistentVolumeClaim": {"claimName": claim}}
        for path, claim in work.claims.items()
    ]
    return {
        "restartPolicy": "Never",
        "serviceAccountName": work.service_account,
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
        "containers": [_container(settings, work)],
        "volumes": [
            *claims,
            {"name": "tmp", "emptyDir": {"sizeLimit": "256Mi"}},
            {"name": "trust", "configMap": {"name": settings.trust_config_map}},
            {"name": "token", "projected": {"defaultMode": 0o440, "sources": [_token()]}},
        ],
        **settings.placement.fields(),
    }


def _token() -> dict[str, Any]:
    source = {"audience": AUDIENCE, "expirationSeconds": _TOKEN_SECONDS, "path": "dmcr-token"}
    return {"serviceAccountToken": source}


def _container(settings: JobSettings, work: Work) -> dict[str, Any]:
    return {
        "name": work.container,
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/python3", "-m", work.program],
        "env": _variables(settings, work),
        "resources": _RESOURCES,
        "terminationMessagePolicy": "File",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            *({"name": _volume(path), "mountPath": path} for path in work.claims),
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - inside the container
            {"name": "trust", "mountPath": _TRUST_FOLDER, "readOnly": True},
            {"name": "token", "mountPath": _TOKEN_FOLDER, "readOnly": True},
        ],
    }


def _variables(settings: JobSettings, work: Work) -> list[dict[str, str]]:
    common = {
        "DMCR_URL": settings.dmcr_url,
        "CA_FILE": f"{_TRUST_FOLDER}/ca.crt",
        "TOKEN_FILE": f"{_TOKEN_FOLDER}/dmcr-token",
        "TRANSFER": work.transfer.name,
        "REPOSITORY": work.transfer.repository,
        "LOG_LEVEL": settings.log_level,
    }
    return [
        {"name": f"{work.prefix}{name}", "value": value}
        for name, value in (common | dict(work.variables)).items()
    ]


def _volume(path: str) -> str:
    return path.strip("/").replace("/", "-")
