"""What to do while a model waits for its upload. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from aimodels.api.model import RETRY_ANNOTATION, ModelStatus
from aimodels.api.reasons import ModelEvent, ModelReason, Phase, TransferStage
from aimodels.catalog import progress, statuses
from aimodels.catalog.names import Key, generation_of, is_upload, upload_secret
from aimodels.catalog.state import Cause, IssueUpload, Note, Plan, RefreshUpload, RevokeTransfers
from kubekit.moments import whole

if TYPE_CHECKING:
    from datetime import datetime

    from aimodels.catalog.state import Observation

#: an upload without a byte for so long lapses, also before its first byte
IDLE = timedelta(hours=24)
#: the time of lapsing is told again when it moved by so much
_TOLD = timedelta(hours=1)
_LOOK = timedelta(hours=1).total_seconds()


def decide(o: Observation, now: datetime) -> Plan:
    """Issue the upload, follow it, or let it lapse."""
    transfers = o.transfers or {}
    ours = [one for one in transfers if is_upload(one) and generation_of(one) == o.model.metadata.generation]
    if o.upload is None or o.upload.transfer not in ours:
        return _issue(o, now, ours[0] if ours else None)
    moved = transfers[o.upload.transfer]
    last = progress.latest(moved.last_progress, o.upload.issued) or now
    if now - last >= IDLE:
        cause = Cause(
            ModelReason.STALLED,
            f"No byte of the upload arrived for {IDLE.total_seconds() / 3600:.0f} hours, so it lapsed. "
            f"Set the annotation {RETRY_ANNOTATION} to a new value (aictl retry) and it is issued again.",
        )
        return Plan(
            status=statuses.failed(o.model, now, cause),
            notes=(Note(ModelEvent.PUBLICATION_FAILED, cause.message, warning=True),),
            afterwards=(RevokeTransfers(),),
        )
    old = o.model.status or ModelStatus()
    transfer, moving = None, progress.is_moving(moved, now)
    if moved.moved:
        transfer = progress.transfer_status(TransferStage.UPLOADING, moved, old.transfer, moving=moving)
    expires = last + IDLE
    if old.upload and old.upload.expires_at and abs(expires - old.upload.expires_at) < _TOLD:
        expires = old.upload.expires_at
    return Plan(
        actions=() if o.upload.current else (RefreshUpload(),),
        status=statuses.waiting(o.model, now, expires, transfer),
        again=progress.PAUSE.total_seconds() if moving else min(_LOOK, (last + IDLE - now).total_seconds()),
    )


def _issue(o: Observation, now: datetime, standing: str | None) -> Plan:
    old = o.model.status
    again = old is not None and old.phase == Phase.WAIT_FOR_UPLOAD
    secret = upload_secret(Key.of(o.model))
    text = f"Address and token of the upload are in Secret {secret}" + (" again." if again else ".")
    return Plan(
        actions=(IssueUpload(standing),),
        status=statuses.waiting(o.model, now, whole(now + IDLE), None),
        notes=(Note(ModelEvent.UPLOAD_SESSION_ISSUED, text),),
        again=_LOOK,
    )
