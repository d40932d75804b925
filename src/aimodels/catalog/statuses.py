"""The status of a model in each stage, conditions included.

What belongs here: what the status says. What does not: which stage it is (``decide``). A status is always
made as a whole; what a stage does not say is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from aimodels.api.model import (
    RETRY_ANNOTATION,
    ArtifactStatus,
    ModelStatus,
    ObservedCatalog,
    ObservedSource,
    PublicationStatus,
    SourceStatus,
    UploadStatus,
)
from aimodels.api.reasons import ConditionType as Type
from aimodels.api.reasons import ModelReason as Reason
from aimodels.api.reasons import Phase
from aimodels.catalog import progress
from aimodels.catalog.names import Key, upload_secret
from aimodels.catalog.reasons import source_type
from kubekit.conditions import Condition, Status, find, first_not_true, is_true, set_condition
from modelkit import sizes

if TYPE_CHECKING:
    from datetime import datetime

    from aimodels.api.model import AnyModel, ModelSource, TransferStatus
    from aimodels.catalog.state import Cause, Published

_ORDER = [str(one) for one in Type]
_ANSWERS = "The registry of the module answers."
_EMBEDDED = (
    "The artifact lies in the module's embedded store, which is for trying things out. Set artifacts to a "
    "bucket for anything that has to last."
)


class Sayings:
    """Conditions being put together: what is not said is gone, and Ready follows from the others."""

    def __init__(self, model: AnyModel, now: datetime) -> None:
        self._old = model.status.conditions if model.status else ()
        self._now = now
        self._generation = model.metadata.generation
        self._said: list[Condition] = []

    def say(self, type_: Type, status: Status, reason: Reason, message: str) -> Sayings:
        """Add one condition."""
        old = find(self._old, type_)
        kept = (old,) if old is not None else ()
        self._said += set_condition(
            kept, type_, status, reason, message, now=self._now, generation=self._generation
        )
        return self

    def storage(self, problem: str = "") -> Sayings:
        """Say whether our own registry answers."""
        if problem:
            return self.say(Type.STORAGE_AVAILABLE, "False", Reason.STORAGE_UNAVAILABLE, problem)
        return self.say(Type.STORAGE_AVAILABLE, "True", Reason.STORAGE_AVAILABLE, _ANSWERS)

    def done(self) -> tuple[Condition, ...]:
        """Return the conditions in their order, with Ready."""
        standing = first_not_true(self._said, _ORDER)
        if standing is None:
            self.say(Type.READY, "True", Reason.READY, "The model is stored and can be mounted.")
        else:
            self.say(Type.READY, "False", Reason(standing.reason), standing.message)
        return tuple(sorted(self._said, key=lambda one: _ORDER.index(one.type)))


def pending(model: AnyModel, now: datetime, message: str, problem: str = "") -> ModelStatus:
    """Nothing is done yet."""
    said = Sayings(model, now).storage(problem)
    said.say(Type.SOURCE_CHECKED, "False", Reason.PENDING, message)
    said.say(Type.ARTIFACT_RESOLVED, "False", Reason.PENDING, message)
    return _status(model, Phase.PENDING, said, publication=_publication(model))


def waiting(
    model: AnyModel, now: datetime, expires: datetime, transfer: TransferStatus | None
) -> ModelStatus:
    """The upload is issued, and maybe on its way."""
    secret = upload_secret(Key.of(model))
    text = f"Upload the file with url and token of Secret {secret}; the upload lapses at {_clock(expires)}."
    said = Sayings(model, now).storage()
    said.say(Type.SOURCE_CHECKED, "False", Reason.WAITING_FOR_USER_UPLOAD, text)
    said.say(Type.PROGRESSING, "True", Reason.WAITING_FOR_USER_UPLOAD, text)
    said.say(Type.ARTIFACT_RESOLVED, "False", Reason.WAITING_FOR_USER_UPLOAD, text)
    return _status(
        model,
        Phase.WAIT_FOR_UPLOAD,
        said,
        upload=UploadStatus(secret_name=secret, expires_at=expires),
        transfer=transfer,
        publication=_publication(model),
        progress=progress.percent(transfer),
    )


def publishing(
    model: AnyModel,
    now: datetime,
    step: Cause,
    *,
    transfer: TransferStatus,
    publication: PublicationStatus | None,
    received: str | None = None,
    halted: Cause | None = None,
) -> ModelStatus:
    """The bytes are being checked and stored; ``step`` says what is being done, ``halted`` why it is not."""
    said = Sayings(model, now).storage()
    said.say(Type.SOURCE_CHECKED, "True", Reason.SOURCE_ACCEPTED, "The upload is complete.")
    if halted is not None:
        said.say(Type.PROGRESSING, "False", halted.reason, halted.message)
    else:
        said.say(Type.PROGRESSING, "True", step.reason, step.message)
    said.say(Type.ARTIFACT_RESOLVED, "False", step.reason, step.message)
    return _status(
        model,
        Phase.PUBLISHING,
        said,
        upload=model.status.upload if model.status else None,
        revision=received,
        transfer=transfer,
        publication=publication,
        progress=progress.percent(transfer),
    )


def ready(
    model: AnyModel,
    now: datetime,
    published: Published,
    *,
    received: str | None = None,
    evaluation: bool = False,
) -> ModelStatus:
    """The model is stored and checked back; a standing upload stays named until it is withdrawn."""
    metadata = (
        (Reason.MODEL_METADATA_PARTIAL, "Some facts could only be estimated and are not shown.")
        if published.withheld
        else (Reason.MODEL_METADATA_CALCULATED, "Facts were read from the model or declared by it.")
    )
    said = Sayings(model, now)
    said.say(Type.SOURCE_CHECKED, "True", Reason.SOURCE_ACCEPTED, "The source was read completely.")
    said.say(Type.ARTIFACT_RESOLVED, "True", Reason.ARTIFACT_PUBLISHED, "Every part is there, by its digest.")
    said.say(Type.METADATA_RESOLVED, "True", *metadata)
    if evaluation:
        said.say(Type.EVALUATION_STORE, "True", Reason.EVALUATION_STORE, _EMBEDDED)
    seen = model.status.source if model.status else None
    return _status(
        model,
        Phase.READY,
        said,
        revision=received or (seen.resolved_revision if seen else None),
        upload=model.status.upload if model.status else None,
        artifact=ArtifactStatus(
            digest=published.digest, size_bytes=published.size_bytes, size=sizes.text(published.size_bytes)
        ),
        resolved=published.resolved,
        progress="100%",
    )


def failed(model: AnyModel, now: datetime, why: Cause) -> ModelStatus:
    """It cannot go on; the number of the attempt stays, since the next one must have another."""
    said = Sayings(model, now)
    old = model.status or ModelStatus()
    accepted = old.phase == Phase.PUBLISHING or is_true(old.conditions, Type.SOURCE_CHECKED)
    if accepted:
        said.say(Type.SOURCE_CHECKED, "True", Reason.SOURCE_ACCEPTED, "The upload is complete.")
    else:
        said.say(Type.SOURCE_CHECKED, "False", why.reason, why.message)
    said.say(Type.ARTIFACT_RESOLVED, "False", why.reason, why.message)
    return _status(model, Phase.FAILED, said, upload=old.upload, publication=old.publication)


def deleting(model: AnyModel, now: datetime, reason: Reason, message: str, problem: str = "") -> ModelStatus:
    """The object is on its way out; what is known of the model stays until it is gone."""
    old = model.status or ModelStatus()
    said = Sayings(model, now).storage(problem)
    for one in old.conditions:
        if one.type in (Type.SOURCE_CHECKED, Type.METADATA_RESOLVED) and one.status == "True":
            said.say(Type(one.type), one.status, Reason(one.reason), one.message)
    said.say(Type.ARTIFACT_RESOLVED, "False", reason, message)
    return _status(
        model,
        Phase.DELETING,
        said,
        upload=old.upload,
        artifact=old.artifact,
        resolved=old.resolved,
        publication=old.publication,
    )


def unavailable(model: AnyModel, now: datetime, problem: str) -> ModelStatus:
    """Our own registry does not answer: the stage stays, and everybody waits."""
    old = model.status
    if old is None:
        return pending(model, now, "The model waits for the registry.", problem)
    said = Sayings(model, now).storage(problem)
    for one in old.conditions:
        if one.type not in (Type.STORAGE_AVAILABLE, Type.READY):
            said.say(Type(one.type), one.status, Reason(one.reason), one.message)
    return msgspec.structs.replace(old, conditions=said.done())


def _status(
    model: AnyModel, phase: Phase, said: Sayings, *, revision: str | None = None, **fields: Any
) -> ModelStatus:
    source = model.spec.source
    kind = source_type(source)
    return ModelStatus(
        observed_generation=model.metadata.generation,
        phase=phase,
        source=None if kind is None else SourceStatus(resolved_type=kind, resolved_revision=revision),
        observed_source=_observed(source),
        observed_retry=model.metadata.annotations.get(RETRY_ANNOTATION),
        conditions=said.done(),
        **fields,
    )


def _observed(source: ModelSource) -> ObservedSource:
    if source.catalog is not None:
        catalog = ObservedCatalog(name=source.catalog.name, source_name=source.catalog.source_name)
        return ObservedSource(type="catalog", catalog=catalog)
    return ObservedSource(type="upload" if source.upload is not None else "url", url=source.url)


def _publication(model: AnyModel) -> PublicationStatus | None:
    """Return the number of the attempt that stands: it is not used twice, whatever happens in between."""
    return model.status.publication if model.status else None


def _clock(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
