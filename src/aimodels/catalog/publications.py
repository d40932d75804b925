"""What to do while a model's bytes are checked and stored. Pure.

What belongs here: what follows from how the Job stands, and what is told. What does not: for how long it is
tried (``attempts``).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from aimodels.api.model import RETRY_ANNOTATION, ModelStatus, PublicationStatus
from aimodels.api.reasons import ConditionType, ModelEvent, Phase, TransferStage
from aimodels.api.reasons import ModelReason as Reason
from aimodels.catalog import attempts, progress, statuses
from aimodels.catalog.names import publication_transfer
from aimodels.catalog.reasons import RETRY_HINT
from aimodels.catalog.state import (
    Cause,
    DeleteJobs,
    Note,
    Obstacle,
    Plan,
    RevokeTransfer,
    RevokeTransfers,
    StartPublication,
    StepBack,
    is_wished,
    wish_of,
)
from aimodels.jobs.observed import JobPhase
from kubekit.conditions import find

if TYPE_CHECKING:
    from datetime import datetime

    from aimodels.api.model import AnyModel
    from aimodels.catalog.state import Bytes, Observation
    from aimodels.jobs.observed import Held

_LOOK = 60.0
#: nothing tells why a Pod does not run yet
_LOOK_FOR_POD = 2.0
#: nothing tells when the cluster allows a Job
_ASK_AGAIN = timedelta(minutes=1)

_RUNNING = Cause(Reason.PACKAGING, "The file is being read, checked and stored.")


def decide(o: Observation, now: datetime) -> Plan:
    """Queue the publication, start an attempt, follow it, or draw the consequence of its end."""
    old = o.model.status or ModelStatus()
    if old.phase != Phase.PUBLISHING:
        note = Note(ModelEvent.RAW_STAGED, "The upload is complete; it is published next.")
        return Plan(status=_queued(o, now, old.publication), notes=(note,))
    publication = old.publication
    if publication is not None and is_wished(o.model):
        publication = attempts.wished(publication, now)
    if o.obstacle is not None and o.obstacle.stands(o.model, now):
        return _hindered(o, now, o.obstacle, publication)
    if publication is None or publication.retry_at is not None:
        left = (publication.retry_at - now).total_seconds() if publication and publication.retry_at else 0.0
        if publication is not None and left > 0:
            return Plan(status=_backing_off(o, now, publication), again=left)
        return _start(o, now, publication)
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


def refused(model: AnyModel, message: str, now: datetime) -> Obstacle:
    """Return what stands in the way when the cluster does not let the Job be made."""
    text = (
        f"The cluster refuses the publication's Job: {message} Raise the quota or correct the policy of the "
        "module's namespace; it is tried again every minute."
    )
    return Obstacle(text, now + _ASK_AGAIN, wish_of(model))


def _start(o: Observation, now: datetime, publication: PublicationStatus | None) -> Plan:
    if not o.queue.may_start:
        return Plan(status=_queued(o, now, publication), again=_LOOK)
    publication = publication or PublicationStatus(attempt=1)
    begun = attempts.begun(publication, now, o.image)
    return Plan(
        actions=(StartPublication(publication.attempt),),
        status=_publishing(o, now, _RUNNING, begun),
        again=_LOOK_FOR_POD,
    )


def _hindered(
    o: Observation, now: datetime, obstacle: Obstacle, publication: PublicationStatus | None
) -> Plan:
    """Say why the Job is not there; nothing tells when it can be, so it is tried now and then."""
    standing = publication or PublicationStatus(attempt=1, retry_at=obstacle.until)
    standing = attempts.counted(standing, now)
    if attempts.is_hopeless(standing, now):
        return _given_up(o, now, obstacle.message)
    cause = Cause(Reason.PENDING, obstacle.message)
    status = _publishing(o, now, cause, standing, stage=TransferStage.QUEUED, halted=cause)
    return Plan(status=status, again=_seconds(obstacle.until - now))


def _follow(o: Observation, now: datetime, publication: PublicationStatus) -> Plan:
    job, transfer = o.job, _transfer(o, publication)
    if job.phase is JobPhase.ABSENT and transfer in (o.transfers or {}):
        return Plan(actions=(StartPublication(publication.attempt),), again=_LOOK_FOR_POD)
    if job.phase is JobPhase.FAILED and job.verdict is not None:
        return failed(o, now, Cause(job.verdict.reason, f"{job.verdict.message} {RETRY_HINT}"))
    moved = (o.transfers or {}).get(transfer)
    publication = attempts.counted(publication, job.since or now)
    furthest = attempts.furthest(publication, moved)
    if job.phase is not JobPhase.ACTIVE:
        return _next_attempt(o, now, furthest)
    if job.held is not None and (why := _why_replaced(o, now, job.held)):
        return _step_back(o, now, furthest, f"{_does_not_run(job.held)} {why}")
    since = progress.latest(moved.last_progress if moved else None, job.since) or now
    quiet, deadline = now - since, progress.stall_deadline(moved.total if moved else None)
    if quiet >= deadline and attempts.is_hopeless(furthest, now):
        return _given_up(o, now, _does_not_run(job.held) if job.held else "")
    halted = _halted(o, now, since if quiet >= deadline else None)
    look = _LOOK if job.running else _LOOK_FOR_POD
    return Plan(
        status=_publishing(o, now, _RUNNING, publication, moved=moved, halted=halted),
        again=look if quiet >= deadline else min(look, _seconds(deadline - quiet)),
    )


def _halted(o: Observation, now: datetime, stalled: datetime | None) -> Cause | None:
    """Return why nothing moves, and has not since ``stalled``; None while it does or may soon."""
    held = o.job.held if o.job.held is not None and o.job.held.lasts(now) else None
    if stalled is not None:
        why = f". {_does_not_run(held)}" if held else "; the attempt goes on."
        return Cause(Reason.STALLED, f"No byte moved since {stalled:%Y-%m-%d %H:%M} UTC{why}")
    return Cause(Reason.PENDING, _does_not_run(held)) if held else None


def _does_not_run(held: Held) -> str:
    return f"The publication's Pod does not run: {held.message}"


def _why_replaced(o: Observation, now: datetime, held: Held) -> str:
    """Return why a Pod that does not run is not waited for any longer; empty while it is."""
    if is_wished(o.model):
        return "It is tried again, as was asked for."
    if not held.lasts_too_long(now):
        return ""
    if held.outdated:
        return "The module's settings are others now; it is tried again with these."
    return "Others have its place meanwhile; it is tried again by itself." if o.queue.crowded else ""


def _step_back(o: Observation, now: datetime, publication: PublicationStatus, text: str) -> Plan:
    """Let somebody else have the place, and come back behind those who wait now."""
    following = attempts.following(publication, now, at_once=is_wished(o.model) or not o.queue.crowded)
    obstacle = Obstacle(text, following.retry_at or now, wish_of(o.model))
    plan = _hindered(o, now, obstacle, following)
    return replace(plan, actions=(*plan.actions, StepBack(publication.attempt, obstacle)))


def _next_attempt(o: Observation, now: datetime, publication: PublicationStatus) -> Plan:
    """A lost worker costs nothing but time: what it journaled is taken over by the next attempt."""
    words = o.job.words
    if attempts.is_hopeless(publication, now):
        return _given_up(o, now, f"Attempt {publication.attempt} ended early, as others before. {words}")
    following = attempts.following(publication, now, at_once=is_wished(o.model))
    return Plan(
        actions=(RevokeTransfer(_transfer(o, publication)),),
        status=_backing_off(o, now, following, words),
        again=_seconds((following.retry_at or now) - now),
    )


def _given_up(o: Observation, now: datetime, why: str) -> Plan:
    hours = attempts.GIVE_UP.total_seconds() / 3600
    text = f"The publication came no further for {hours:.0f} hours. {why} {RETRY_HINT}"
    return failed(o, now, Cause(Reason.STALLED, text))


def _transfer(o: Observation, publication: PublicationStatus) -> str:
    metadata = o.model.metadata
    return publication_transfer(metadata.uid, metadata.generation, publication.attempt)


def _seconds(span: timedelta) -> float:
    return max(span.total_seconds(), 1.0)


def _queued(o: Observation, now: datetime, publication: PublicationStatus | None) -> ModelStatus:
    old = o.model.status.transfer if o.model.status else None
    transfer = progress.transfer_status(TransferStage.QUEUED, None, old, position=o.queue.position)
    text = (
        f"The publication waits for a free place; it is number {transfer.queue_position} in the queue."
        f"{f' {o.obstacle.message}' if o.obstacle else ''}"
    )
    return statuses.publishing(
        o.model,
        now,
        Cause(Reason.PENDING, text),
        transfer=transfer,
        publication=publication,
        received=o.received,
    )


def _backing_off(
    o: Observation, now: datetime, publication: PublicationStatus, words: str | None = None
) -> ModelStatus:
    """Say which attempt comes when; why the last one ended is said once and then kept."""
    text = (
        f"Attempt {publication.attempt - 1} ended early; attempt {publication.attempt} begins at "
        f"{publication.retry_at:%H:%M:%S} UTC and takes over what is stored."
    )
    if words is None:
        told = find(o.model.status.conditions, ConditionType.ARTIFACT_RESOLVED) if o.model.status else None
        text = told.message if told is not None and told.message.startswith(text) else text
    elif words:
        text = f"{text} What it said last: {words}"
    return _publishing(o, now, Cause(Reason.PUBLISHING, text), publication)


def _publishing(
    o: Observation,
    now: datetime,
    step: Cause,
    publication: PublicationStatus,
    *,
    stage: TransferStage = TransferStage.PACKAGING,
    moved: Bytes | None = None,
    halted: Cause | None = None,
) -> ModelStatus:
    old = o.model.status.transfer if o.model.status else None
    transfer = progress.transfer_status(stage, moved, old, moving=progress.is_moving(moved, now))
    return statuses.publishing(
        o.model,
        now,
        step,
        transfer=transfer,
        publication=publication,
        received=o.received,
        halted=halted,
    )
