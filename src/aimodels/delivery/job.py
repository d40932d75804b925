"""The Job that copies a model into a claim.

What belongs here: what it is for. What does not: the Pod's shape (``jobs.manifest``), when it is made, or
what the program in it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aimodels.delivery import names
from aimodels.jobs.manifest import Transfer, Work, job
from aimodels.jobs.worker import Exit
from modelkit.names import repository

if TYPE_CHECKING:
    from aimodels.delivery.claims import Claim
    from aimodels.jobs.manifest import JobSettings

SERVICE_ACCOUNT = "ai-models-copy"
_TARGET = "/target"
_CONTAINER = "copy"
_ATTEMPTS = 6


def copy_job(settings: JobSettings, fill: Claim) -> dict[str, Any]:
    """Return the manifest.

    Its Pods follow each other with Kubernetes' back-off; a permanent failure ends it at once.
    """
    target = fill.target
    refused = {"containerName": _CONTAINER, "operator": "In", "values": [int(Exit.PERMANENT)]}
    rules = [
        {"action": "FailJob", "onExitCodes": refused},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
    work = Work(
        name=names.copy_name(fill.uid),
        container=_CONTAINER,
        program="aimodels.delivery.copy",
        service_account=SERVICE_ACCOUNT,
        prefix="COPY_",
        transfer=Transfer(names.copy_name(fill.uid), repository(target.model_namespace or None, target.name)),
        variables={"DIGEST": fill.digest, "TARGET": _TARGET},
        labels={names.APP_LABEL: names.COPY_APP, **names.MODULE_LABEL},
        annotations={names.TARGET_ANNOTATION: str(target)},
        policy={"backoffLimit": _ATTEMPTS, "podFailurePolicy": {"rules": rules}},
        claims={_TARGET: fill.name},
    )
    return job(settings, work)
