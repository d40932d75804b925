"""Models in every stage, and observations of them, for the pure parts of the catalogue."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from aimodels.api.model import (
    FINALIZER,
    CatalogSource,
    ClusterModel,
    Model,
    ModelSource,
    ModelSpec,
    ModelStatus,
    PublicationStatus,
    ResolvedStatus,
    TransferStatus,
    UploadSource,
    UploadStatus,
)
from aimodels.api.reasons import ModelReason, Phase
from aimodels.catalog import statuses
from aimodels.catalog.names import publication_transfer, upload_transfer
from aimodels.catalog.state import (
    Bytes,
    Cause,
    Observation,
    PublicationJob,
    Published,
    UploadObjects,
)
from aimodels.jobs.observed import JobPhase
from kubekit.resources import ObjectMeta

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
UID = "5a6b4d84-0f86-4bb0-9d6b-2d0b1a111111"
DIGEST = "sha256:" + "1" * 64
UPLOAD = ModelSource(upload=UploadSource())
URL = ModelSource(url="https://huggingface.co/acme/llm")
CATALOG = ModelSource(catalog=CatalogSource(name="llm"))
UPLOAD_TRANSFER = upload_transfer(UID, 1, "00ff00ff00")
PUBLISHED = Published(DIGEST, 5, ResolvedStatus(format="GGUF"), withheld=False)


def model(
    status: ModelStatus | None = None,
    source: ModelSource = UPLOAD,
    *,
    cluster: bool = False,
    finalized: bool = True,
    deleting: bool = False,
    **metadata: Any,
) -> Model | ClusterModel:
    """Return a model of generation 1."""
    fields: dict[str, Any] = {
        "name": "m",
        "namespace": "" if cluster else "team",
        "uid": UID,
        "resource_version": "7",
        "generation": 1,
        "creation_timestamp": NOW - timedelta(minutes=5),
        "deletion_timestamp": NOW if deleting else None,
        "finalizers": [FINALIZER] if finalized else [],
    }
    kind = ClusterModel if cluster else Model
    return kind(metadata=ObjectMeta(**fields | metadata), spec=ModelSpec(source=source), status=status)


def status(phase: Phase, **fields: Any) -> ModelStatus:
    """Return the status that the catalogue itself writes in a phase."""
    return msgspec.structs.replace(_STATUSES[phase], **fields)


def waiting(**changes: Any) -> Observation:
    """Return what is seen of a model whose upload is issued and stands."""
    seen: dict[str, Any] = {
        "model": model(status(Phase.WAIT_FOR_UPLOAD)),
        "tags": {},
        "transfers": {UPLOAD_TRANSFER: Bytes(0)},
        "upload": UploadObjects(UPLOAD_TRANSFER, NOW - timedelta(minutes=1)),
    }
    return Observation(**seen | changes)


def publishing(attempt: int = 1, **changes: Any) -> Observation:
    """Return what is seen of a model whose publication Job runs."""
    seen: dict[str, Any] = {
        "model": model(status(Phase.PUBLISHING, publication=PublicationStatus(attempt=attempt))),
        "tags": {"upload": DIGEST},
        "transfers": {
            UPLOAD_TRANSFER: Bytes(100, 100),
            publication_transfer(UID, 1, attempt): Bytes(0, 100),
        },
        "job": PublicationJob(JobPhase.ACTIVE, since=NOW - timedelta(seconds=1)),
    }
    return Observation(**seen | changes)


def _statuses() -> dict[Phase, ModelStatus]:
    fresh = model()
    upload = UploadStatus(secret_name="ai-model-upload-m", expires_at=NOW + timedelta(hours=24))
    pending = statuses.pending(fresh, NOW, "new")
    wait = statuses.waiting(fresh, NOW, NOW + timedelta(hours=24), None)
    queued = statuses.publishing(
        model(wait),
        NOW,
        Cause(ModelReason.PACKAGING, "The file is being read, checked and stored."),
        transfer=TransferStatus(stage="Packaging"),
        publication=None,
    )
    ready = statuses.ready(fresh, NOW, PUBLISHED)
    failed = statuses.failed(fresh, NOW, Cause(ModelReason.PUBLICATION_FAILED, "broken"))
    return {
        Phase.PENDING: pending,
        Phase.WAIT_FOR_UPLOAD: wait,
        Phase.PUBLISHING: msgspec.structs.replace(queued, upload=upload),
        Phase.READY: ready,
        Phase.FAILED: failed,
        Phase.DELETING: statuses.deleting(model(ready), NOW, ModelReason.DELETING, "going"),
    }


_STATUSES = _statuses()
