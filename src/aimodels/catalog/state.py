"""What one look at a model shows, and what is to be done about it: the values between observe, decide, act.

What belongs here: frozen values. What does not: how they are gathered or carried out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aimodels.api.model import RETRY_ANNOTATION
from aimodels.jobs.observed import JobPhase

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from aimodels.api.model import AnyModel, ModelStatus, ResolvedStatus
    from aimodels.api.reasons import ModelEvent, ModelReason
    from aimodels.jobs.observed import Held


@dataclass(frozen=True)
class Cause:
    """Why something is as it is: a word for machines and a text for people."""

    reason: ModelReason
    message: str


@dataclass(frozen=True)
class PublicationJob:
    """The Job of the current attempt.

    Its Pod leaves a permanent reason as ``verdict``, or any other last ``words``. ``running`` tells whether
    it runs, ``held`` why it does not where that is known.
    """

    phase: JobPhase
    since: datetime | None = None
    verdict: Cause | None = None
    words: str = ""
    running: bool = False
    held: Held | None = None


@dataclass(frozen=True)
class Bytes:
    """How far a transfer is, as DMCR counts it; ``speed`` in bytes per second."""

    moved: int
    total: int | None = None
    speed: float | None = None
    last_progress: datetime | None = None


@dataclass(frozen=True)
class UploadObjects:
    """The upload's Secret as it stands: which transfer it is for, and since when.

    ``current`` says whether it tells how the gateway is reached and trusted now.
    """

    transfer: str
    issued: datetime
    current: bool = True


@dataclass(frozen=True)
class Published:
    """An artifact that was read back and whose blobs are all there."""

    digest: str
    size_bytes: int
    resolved: ResolvedStatus
    withheld: bool


@dataclass(frozen=True)
class Queue:
    """The model's place among those that wait for a free publication, and how many are free.

    ``crowded`` tells of one that has a place whether somebody waits for just that.
    """

    position: int = 1
    free: int = 1
    crowded: bool = False

    @property
    def may_start(self) -> bool:
        """Tell whether this model is among the next ones that fit."""
        return self.position <= self.free


@dataclass(frozen=True)
class Obstacle:
    """Why a publication's Job is not there, as people are told it; until when it is not tried again.

    ``wish`` is the value of the annotation with which it was met: only another wish goes past it.
    """

    message: str
    until: datetime
    wish: str | None = None

    def stands(self, model: AnyModel, now: datetime) -> bool:
        """Tell whether it is still in the model's way."""
        return self.until > now and wish_of(model) in (None, self.wish)


def wish_of(model: AnyModel) -> str | None:
    """Return the wish to retry that stands on the model, granted or not."""
    return model.metadata.annotations.get(RETRY_ANNOTATION)


def is_wished(model: AnyModel) -> bool:
    """Tell whether there is a wish to retry that nobody has acted upon."""
    wish = wish_of(model)
    return wish is not None and (model.status is None or wish != model.status.observed_retry)


@dataclass(frozen=True)
class Observation:
    """Everything that is known about one model now.

    ``tags`` is None and ``transfers`` is None where the registry was not asked. ``problem`` says why the
    registry could not be asked.
    """

    model: AnyModel
    problem: str = ""
    tags: Mapping[str, str] | None = None
    #: id -> progress of the transfers of this model that are not revoked
    transfers: Mapping[str, Bytes] | None = None
    upload: UploadObjects | None = None
    job: PublicationJob = PublicationJob(JobPhase.ABSENT)
    published: Published | None = None
    broken: Cause | None = None
    #: digest of the file that was uploaded
    received: str | None = None
    #: whether artifacts lie in the embedded store
    evaluation: bool = False
    queue: Queue = Queue()
    obstacle: Obstacle | None = None
    consumers: tuple[str, ...] = ()
    #: image of the module that publications are made with
    image: str = ""


class Action:
    """Base of what can be done; each is repeatable."""


@dataclass(frozen=True)
class AddFinalizer(Action):
    """Put our finalizer on the object before anything is made for it."""


@dataclass(frozen=True)
class RemoveFinalizer(Action):
    """Let the object go."""


@dataclass(frozen=True)
class IssueUpload(Action):
    """Make Secret and Role of the upload with a new token, and allow its transfer.

    A transfer that stands keeps its id, so that an upload that is on its way goes on.
    """

    transfer: str | None = None


@dataclass(frozen=True)
class RefreshUpload(Action):
    """Write the upload's Secret again, with the token that it has."""


@dataclass(frozen=True)
class WithdrawUpload(Action):
    """Delete Secret and Role of the upload."""


@dataclass(frozen=True)
class StartPublication(Action):
    """Allow an attempt's transfer and make its Job."""

    attempt: int


@dataclass(frozen=True)
class StepBack(Action):
    """Give the place of an attempt whose Pod does not run to the next: end it, and wait behind the others."""

    attempt: int
    obstacle: Obstacle


@dataclass(frozen=True)
class RevokeTransfer(Action):
    """Refuse one attempt's transfer from now on; what it stored is there for the next attempt."""

    transfer: str


@dataclass(frozen=True)
class RevokeTransfers(Action):
    """Refuse every transfer of this model from now on, and drop what any of them left unfinished."""


@dataclass(frozen=True)
class DeleteJobs(Action):
    """Delete the model's publication Jobs."""


@dataclass(frozen=True)
class RemoveTag(Action):
    """Remove a tag of the repository."""

    tag: str


@dataclass(frozen=True)
class CloseRepository(Action):
    """Close the repository's record: its content is gone and late writers are fenced."""


@dataclass(frozen=True)
class Note:
    """An event to record."""

    event: ModelEvent
    message: str
    warning: bool = False


@dataclass(frozen=True)
class Plan:
    """What to do: actions, then the status, then the events, then the actions that the status must precede.

    ``again`` is in how many seconds to look again though nothing changes.
    """

    actions: tuple[Action, ...] = ()
    status: ModelStatus | None = None
    notes: tuple[Note, ...] = ()
    afterwards: tuple[Action, ...] = ()
    again: float | None = None


NOTHING = Plan()
