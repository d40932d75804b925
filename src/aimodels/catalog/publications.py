"""What to do while a model's bytes are checked and stored. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from aimodels.api.model import RETRY_ANNOTATION, ModelStatus, PublicationStatus
from aimodels.api.reasons import ConditionType, ModelEvent, Phase, TransferStage
from aimodels.api.reasons import ModelReason as Reason
from aimodels.catalog import progress, statuses
from aimodels.catalog.names import publication_transfer
from aimodels.catalog.reasons import RETRY_HINT
from aimodels.catalog.state import (
    Cause,
    DeleteJobs,
    JobPhase,
    Note,
    Plan,
    RevokeTransfer,
    RevokeTransfers,
    StartPublication,
)
from kubekit.conditions import find
from opskit.retry import Backoff

if TYPE_CHECKING:
    from datetime import datetime

    from aimodels.catalog.state import Bytes, Observation, Refusal

_BACKOFF = Backoff(first=2.0, most=300.0, jitter=0.0)
#: a publication without a byte for so long fails
_GIVE_UP = timedelta(hours=24)
_LOOK = 60.0

_RUNNING = Cause(Reason.PACKAGING, "The file is being read, checked and stored.")


def decide(o: Observation, now: datetime) -> Plan:
    """Queue the publication, start an attempt, follow it, or draw the consequence of its end."""
    old = o.model.status or ModelStatus()
    if old.phase != Phase.PUBLISHING:
        note = Note(ModelEvent.RAW_STAGED, "The upload is complete; it is published next.")
        return Plan(status=_queued(o, now, old.publication), notes=(note,))
    publication = old.publication
    wished = o.model.metadata.annotations.get(RETRY_ANNOTATION) != old.observed_retry
    if o.refused is not None and o.refused.until > now and not wished:
        return _refused(o, now, o.refused)
    if publication is None:
        return _start(o, now, 1)
    if publication.retry_at is not None:
        left = (publication.retry_at - now).total_seconds()
        if left > 0 and not wished:
            return Plan(status=_backing_off(o, now, publication), again=left)
        return _start(o, now, publication.attempt)
    return _follow(o, now, publication)


def failed(o: Observation, now: datetime, cause: Cause) -> Plan:
    """End the publication: the status first, then what it held; a Job that never ends by itself goes too."""
    return Plan(
        status=statuses.failed(o.model, now, cause),
        notes=(Note(ModelEvent.PUBLICATION_FAILED, f"{cause.reason}: {cause.message}", warning=True),),
        afterwards=(RevokeTransfers(), DeleteJobs())
        if o.job.phase is JobPhase.ACTIVE
        else (RevokeTransfers(),),
    )


def lost(o: Observation, now: datetime) -> Plan:
    """End a publication whose file the registry has not got any more; a wish issues the upload again."""
    text = (
        "The registry has not got the uploaded file any more: its store was lost, emptied or replaced. Set "
        f"the annotation {RETRY_ANNOTATION} to a new value (aictl retry), and upload the file again."
    )
    return failed(o, now, Cause(Reason.PUBLICATION_FAILED, text))


def refused_by_another_version(status: ModelStatus, image: str) -> bool:
    """Tell whether the source was of a kind that was not served, and this version has not judged it."""
    ready = find(status.conditions, ConditionType.READY)
    judge = status.publication.image if status.publication else None
    return ready is not None and ready.reason == Reason.UNSUPPORTED_SOURCE and judge != (image or None)


def begun_again(o: Observation, now: datetime, publication: PublicationStatus) -> ModelStatus:
    """Return the status with which a failed publication goes on with the bytes that are there."""
    return _queued(o, now, publication)


def _start(o: Observation, now: datetime, attempt: int) -> Plan:
    if not o.queue.may_start:
        old = o.model.status.publication if o.model.status else None
        return Plan(status=_queued(o, now, old), again=_LOOK)
    publication = PublicationStatus(attempt=attempt, image=o.image or None)
    return Plan(
        actions=(StartPublication(attempt),),
        status=_publishing(o, now, _RUNNING, TransferStage.PACKAGING, publication),
        again=_LOOK,
    )


def _refused(o: Observation, now: datetime, refusal: Refusal) -> Plan:
    """Say why the Job is not there; nothing tells when the cluster allows it, so it is tried now and then."""
    old = o.model.status or ModelStatus()
    text = (
        f"The cluster refuses the publication's Job: {refusal.message} Raise the quota or correct the policy "
        "of the module's namespace; it is tried again every minute."
    )
    cause = Cause(Reason.PENDING, text)
    status = statuses.publishing(
        o.model,
        now,
        cause,
        transfer=progress.transfer_status(TransferStage.QUEUED, None, old.transfer),
        publication=old.publication,
        received=o.received,
        halted=cause,
    )
    return Plan(status=status, again=max((refusal.until - now).total_seconds(), 1.0))


def _follow(o: Observation, now: datetime, publication: PublicationStatus) -> Plan:
    job = o.job
    metadata = o.model.metadata
    transfer = publication_transfer(metadata.uid, metadata.generation, publication.attempt)
    if job.phase is JobPhase.ABSENT and transfer in (o.transfers or {}):
        return Plan(actions=(StartPublication(publication.attempt),), again=_LOOK)
    if job.phase is JobPhase.FAILED and job.verdict is not None:
        return failed(o, now, Cause(job.verdict.reason, f"{job.verdict.message} {RETRY_HINT}"))
    if job.phase is not JobPhase.ACTIVE:
        return _next_attempt(o, now, publication)
    moved = (o.transfers or {}).get(transfer)
    since = progress.latest(moved.last_progress if moved else None, job.since) or now
    quiet = now - since
    if quiet >= _GIVE_UP:
        text = f"Nothing moved for {_GIVE_UP.total_seconds() / 3600:.0f} hours. {RETRY_HINT}"
        return failed(o, now, Cause(Reason.STALLED, text))
    deadline = progress.stall_deadline(moved.total if moved else None)
    halted = None
    if quiet >= deadline:
        why = f": {job.waiting}" if job.waiting else "; the attempt goes on."
        halted = Cause(Reason.STALLED, f"No byte moved since {since:%Y-%m-%d %H:%M} UTC{why}")
    return Plan(
        status=_publishing(
            o, now, _RUNNING, TransferStage.PACKAGING, publication, moved=moved, halted=halted
        ),
        again=min(_LOOK, max((deadline - quiet).total_seconds(), 1.0)) if halted is None else _LOOK,
    )


def _next_attempt(o: Observation, now: datetime, publication: PublicationStatus) -> Plan:
    """A lost worker costs nothing but time: what it journaled is taken over by the next attempt."""
    delay = _BACKOFF.delay(publication.attempt)
    following = PublicationStatus(attempt=publication.attempt + 1, retry_at=now + timedelta(seconds=delay))
    metadata = o.model.metadata
    return Plan(
        actions=(
            RevokeTransfer(publication_transfer(metadata.uid, metadata.generation, publication.attempt)),
        ),
        status=_backing_off(o, now, following),
        again=delay,
    )


def _queued(o: Observation, now: datetime, publication: PublicationStatus | None) -> ModelStatus:
    position = o.queue.position
    transfer = progress.transfer_status(
        TransferStage.QUEUED, None, o.model.status.transfer if o.model.status else None, position=position
    )
    told = transfer.queue_position
    step = Cause(Reason.PENDING, f"The publication waits for a free place; it is number {told} in the queue.")
    return statuses.publishing(
        o.model, now, step, transfer=transfer, publication=publication, received=o.received
    )


def _backing_off(o: Observation, now: datetime, publication: PublicationStatus) -> ModelStatus:
    text = (
        f"Attempt {publication.attempt - 1} ended early; attempt {publication.attempt} begins at "
        f"{publication.retry_at:%H:%M:%S} UTC and takes over what is stored."
    )
    return _publishing(o, now, Cause(Reason.PUBLISHING, text), TransferStage.PACKAGING, publication)


def _publishing(
    o: Observation,
    now: datetime,
    step: Cause,
    stage: TransferStage,
    publication: PublicationStatus,
    *,
    moved: Bytes | None = None,
    halted: Cause | None = None,
) -> ModelStatus:
    old = o.model.status.transfer if o.model.status else None
    transfer = progress.transfer_status(stage, moved, old)
    return statuses.publishing(
        o.model,
        now,
        step,
        transfer=transfer,
        publication=publication,
        received=o.received,
        halted=halted,
    )
