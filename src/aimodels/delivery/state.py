"""What one look at a delivery shows, and what is to be done: the values between observe, decide and act.

What belongs here: frozen values. What does not: how they are gathered or carried out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from aimodels.api.reasons import DeliveryBlockedReason
    from aimodels.delivery.claims import Claim
    from aimodels.delivery.names import DeliveryKey
    from aimodels.jobs.observed import Held, JobPhase


@dataclass(frozen=True)
class Blocked:
    """Why a model is not there yet; ``hard`` when somebody has to do something about it."""

    reason: DeliveryBlockedReason
    message: str
    hard: bool = False


@dataclass(frozen=True)
class ModelState:
    """What delivery needs to know of a model; a digest only when it is Ready."""

    exists: bool
    phase: str = ""
    digest: str | None = None
    size_bytes: int = 0
    deleting: bool = False


@dataclass(frozen=True)
class Mount:
    """A claim of the namespace and whether a Pod uses it."""

    claim: Claim
    used: bool


@dataclass(frozen=True)
class Fill:
    """A claim that is being filled, and its Job; when it gave up, since when and why.

    ``running`` tells whether the Job's Pod runs, ``held`` why it does not where that is known.
    """

    claim: Claim
    copy: JobPhase
    failed_at: datetime | None = None
    failure: Blocked | None = None
    running: bool = False
    held: Held | None = None


@dataclass(frozen=True)
class Observation:
    """Everything that is known about one model in one namespace.

    ``complete`` is False when some object could not be read: then nothing is deleted. ``crowded`` tells
    whether others wait for a place to copy.
    """

    key: DeliveryKey
    model: ModelState
    wanted: bool
    listed: int | None = None
    mounts: tuple[Mount, ...] = ()
    fills: tuple[Fill, ...] = ()
    storage_class: str | Blocked = ""
    complete: bool = True
    crowded: bool = False


class Action:
    """Base of what can be done; each is repeatable."""


@dataclass(frozen=True)
class StartFill(Action):
    """Ask the quota, take a place, make the claim to fill, allow its transfer and make its Job."""

    serial: int
    digest: str
    size_bytes: int
    storage_class: str


@dataclass(frozen=True)
class StartCopy(Action):
    """Take a place, allow the transfer of a claim that is there and make its Job."""

    fill: Claim
    size_bytes: int


@dataclass(frozen=True)
class RestartCopy(Action):
    """Delete the Job that gave up; the next look makes it again."""

    fill: Claim


@dataclass(frozen=True)
class StepBack(Action):
    """Give the place of a copy whose Pod does not run to the next: its Job goes, its claim stays."""

    fill: Claim
    why: str


@dataclass(frozen=True)
class HandOver(Action):
    """Give the filled volume to the namespace's claim."""

    fill: Claim


@dataclass(frozen=True)
class FinishHandOver(Action):
    """Restore the volume's reclaim policy and remove what only the filling needed."""

    fill: Claim


@dataclass(frozen=True)
class AbandonFill(Action):
    """Remove a fill that nobody wants any more, its volume included."""

    fill: Claim


@dataclass(frozen=True)
class DeleteClaim(Action):
    """Delete a claim of the namespace; Kubernetes keeps it while a Pod uses it."""

    claim: Claim


@dataclass(frozen=True)
class Plan:
    """What to do, and what to tell the namespace's workloads: None when the model is there for them."""

    actions: tuple[Action, ...] = ()
    blocked: Blocked | None = None
    again: float | None = None
