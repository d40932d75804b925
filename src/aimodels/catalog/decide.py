"""What to do about a model. Pure: an observation and the time come in, a plan goes out.

What belongs here: the stages and the ways between them. What does not: what happens inside the two long ones
(``uploads``, ``publications``) and how anything is done (``act``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from aimodels.api.model import FINALIZER, FORCE_DELETE_ANNOTATION, PublicationStatus
from aimodels.api.reasons import ConditionType, ModelEvent, Phase
from aimodels.api.reasons import ModelReason as Reason
from aimodels.catalog import publications, reasons, statuses, uploads
from aimodels.catalog.names import PUBLISHED_TAG, UPLOAD_TAG
from aimodels.catalog.state import (
    NOTHING,
    AddFinalizer,
    Cause,
    CloseRepository,
    DeleteJobs,
    Note,
    Plan,
    RemoveFinalizer,
    RemoveTag,
    RevokeTransfers,
    WithdrawUpload,
    is_wished,
)
from kubekit.conditions import find
from kubekit.moments import whole

if TYPE_CHECKING:
    from datetime import datetime

    from aimodels.api.model import ModelStatus
    from aimodels.catalog.state import Observation, Published

_WHILE_UNAVAILABLE = 5.0
_WHILE_IN_USE = 5.0
_CONSUMERS_SHOWN = 10

#: everything that a life of the model made, in the order in which it goes
_UNDO = (RevokeTransfers(), WithdrawUpload(), DeleteJobs(), CloseRepository())


def decide(o: Observation, now: datetime) -> Plan:
    """Return what is to be done about the model as it was observed."""
    finalized = FINALIZER in o.model.metadata.finalizers
    if o.model.metadata.deleting:
        return _delete(o, now) if finalized else NOTHING
    plan = _stage(o, now)
    works = plan.actions or (plan.status is not None and plan.status.phase != Phase.FAILED)
    # An uninstallation takes finalizers off; what is stored still has to go with its model one day.
    stored = o.model.status is not None and o.model.status.artifact is not None
    if (works or stored) and not finalized:
        return replace(plan, actions=(AddFinalizer(), *plan.actions))
    return plan


def _stage(o: Observation, now: datetime) -> Plan:
    old = o.model.status
    phase = old.phase if old else None
    if old is not None and _is_outdated(old, o.model.metadata.generation):
        return _restart(o, now, "The source was changed; the model starts again.")
    refused = reasons.refusal(o.model.spec.source)
    if refused is not None:
        return _refuse(o, now, refused)
    if phase == Phase.READY:
        return _tidy(o)
    if phase == Phase.FAILED:
        return _after_failure(o, now)
    return _work(o, now, phase)


def _work(o: Observation, now: datetime, phase: str | None) -> Plan:
    if o.problem:
        return Plan(status=statuses.unavailable(o.model, now, o.problem), again=_WHILE_UNAVAILABLE)
    if o.published is not None:
        return _finish(o, now, o.published)
    if o.broken is not None:
        return publications.failed(o, now, o.broken)
    if phase == Phase.PUBLISHING and UPLOAD_TAG not in (o.tags or {}):
        return publications.lost(o, now)
    if phase == Phase.PUBLISHING or UPLOAD_TAG in (o.tags or {}):
        return publications.decide(o, now)
    return uploads.decide(o, now)


def _is_outdated(old: ModelStatus, generation: int) -> bool:
    """Tell whether the status speaks of an earlier source; one with an artifact cannot (rule of the CRD)."""
    return old.phase is not None and old.artifact is None and old.observed_generation != generation


def _restart(o: Observation, now: datetime, why: str) -> Plan:
    """Undo what the earlier source or attempt made, then begin again with the next number of attempt."""
    old = o.model.status
    status = statuses.pending(o.model, now, why)
    if old is not None and old.publication is not None:
        following = PublicationStatus(attempt=old.publication.attempt + 1, retry_at=whole(now))
        status = msgspec.structs.replace(status, publication=following)
    made = FINALIZER in o.model.metadata.finalizers
    return Plan(actions=_UNDO if made else (), status=status)


def _refuse(o: Observation, now: datetime, cause: Cause) -> Plan:
    old = o.model.status
    failed = statuses.failed(o.model, now, cause)
    if old is not None and old.phase == Phase.FAILED and old.conditions == failed.conditions:
        return NOTHING
    note = Note(ModelEvent.PUBLICATION_FAILED, f"{cause.reason}: {cause.message}", warning=True)
    return Plan(status=failed, notes=(note,))


def _finish(o: Observation, now: datetime, published: Published) -> Plan:
    text = f"The model is stored as {published.digest}."
    return Plan(
        actions=(RemoveTag(UPLOAD_TAG),) if _left_alone(o) else (),
        status=statuses.ready(o.model, now, published, received=o.received, evaluation=o.evaluation),
        notes=(Note(ModelEvent.PUBLICATION_SUCCEEDED, text),),
        afterwards=(RevokeTransfers(),) if o.transfers else (),
    )


def _left_alone(o: Observation) -> bool:
    """Tell whether the tag of a received upload stands without an upload in the status to tidy up after."""
    old = o.model.status
    return UPLOAD_TAG in (o.tags or {}) and (old is None or old.upload is None)


def _tidy(o: Observation) -> Plan:
    """Remove what only the way to Ready needed; ``status.upload`` says that it is still there."""
    old = o.model.status
    if old is None or old.upload is None:
        return NOTHING
    return Plan(
        actions=(RevokeTransfers(), WithdrawUpload(), RemoveTag(UPLOAD_TAG)),
        status=msgspec.structs.replace(old, upload=None),
    )


def _after_failure(o: Observation, now: datetime) -> Plan:
    old = o.model.status
    if old is None:
        return NOTHING
    if is_wished(o.model):
        ready = find(old.conditions, ConditionType.READY)
        good = ready is not None and ready.reason in reasons.BYTES_STAY
        return _again(o, now, old, "The model starts again, as was asked for.", keep=good)
    if publications.refused_by_another_version(old, o.image):
        return _again(o, now, old, "This version of the module looks at the model again.", keep=True)
    if old.upload is not None:
        return Plan(
            actions=(RevokeTransfers(), WithdrawUpload()), status=msgspec.structs.replace(old, upload=None)
        )
    return NOTHING


def _again(o: Observation, now: datetime, old: ModelStatus, why: str, *, keep: bool) -> Plan:
    """Begin again: with the bytes that are there when they are to be kept, else from nothing."""
    if o.problem:
        return Plan(again=_WHILE_UNAVAILABLE)
    attempt = old.publication.attempt if old.publication else 0
    if keep and UPLOAD_TAG in (o.tags or {}):
        again = PublicationStatus(attempt=attempt + 1, retry_at=whole(now))
        return Plan(
            actions=(RemoveTag(PUBLISHED_TAG),),
            status=publications.begun_again(o, now, again),
        )
    return _restart(o, now, why)


def _delete(o: Observation, now: datetime) -> Plan:
    forced = o.model.metadata.annotations.get(FORCE_DELETE_ANNOTATION) == "true"
    if o.consumers and not forced:
        shown = ", ".join(o.consumers[:_CONSUMERS_SHOWN])
        more = len(o.consumers) - _CONSUMERS_SHOWN
        text = (
            f"The model is used by {shown}{f' and {more} more' if more > 0 else ''}. "
            f'Remove their annotation, or set {FORCE_DELETE_ANNOTATION}: "true" on the model.'
        )
        return Plan(status=statuses.deleting(o.model, now, Reason.IN_USE, text), again=_WHILE_IN_USE)
    return Plan(
        status=statuses.deleting(o.model, now, Reason.DELETING, _removal(o), o.problem),
        afterwards=(*_UNDO, RemoveFinalizer()),
    )


def _removal(o: Observation) -> str:
    """Return what is said of a removal; what stands in its way stays told until it is over."""
    told = find(o.model.status.conditions, ConditionType.ARTIFACT_RESOLVED) if o.model.status else None
    if told is not None and told.reason == Reason.DELETING:
        return told.message
    return "What belongs to the model is being removed."
