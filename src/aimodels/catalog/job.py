"""The Job of a publication attempt.

What belongs here: what it is for. What does not: the Pod's shape (``jobs.manifest``), when it is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from aimodels.catalog import names
from aimodels.jobs.manifest import Transfer, Work, job

if TYPE_CHECKING:
    from aimodels.catalog.names import Key
    from aimodels.jobs.manifest import JobSettings

SERVICE_ACCOUNT = "ai-models-publication"
#: logs of ended attempts stay readable for so long
_KEEP_SECONDS = 3600


def publication_job(
    settings: JobSettings, key: Key, uid: str, generation: int, attempt: int
) -> dict[str, Any]:
    """Return the manifest of one attempt's Job: one Pod, no second try, nothing in Kubernetes to do."""
    work = Work(
        name=names.publication_job(uid, generation, attempt),
        container="publish",
        program="aimodels.publication",
        service_account=SERVICE_ACCOUNT,
        prefix="PUBLICATION_",
        transfer=Transfer(names.publication_transfer(uid, generation, attempt), names.repository(key)),
        variables={
            "MODEL_NAME": key.name,
            "SOURCE": msgspec.json.encode({"type": "Upload"}).decode(),
        },
        labels={names.APP_LABEL: names.PUBLICATION_APP, names.UID_LABEL: uid, **names.MODULE_LABEL},
        annotations={names.MODEL_ANNOTATION: str(key)},
        policy={"backoffLimit": 0, "ttlSecondsAfterFinished": _KEEP_SECONDS},
    )
    return job(settings, work)
