"""What to do for one model in one namespace. Pure: an observation comes in, a plan goes out.

What belongs here: which step is next. What does not: how a step is done (``act``).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from aimodels.api.reasons import DeliveryBlockedReason as Reason
from aimodels.api.reasons import Phase
from aimodels.delivery import claims
from aimodels.delivery.names import claim_name
from aimodels.delivery.state import (
    AbandonFill,
    Action,
    Blocked,
    DeleteClaim,
    Fill,
    FinishHandOver,
    HandOver,
    Observation,
    Plan,
    RestartCopy,
    StartCopy,
    StartFill,
    StepBack,
)
from aimodels.jobs.observed import JobPhase

if TYPE_CHECKING:
    from datetime import datetime

    from aimodels.delivery.claims import Claim
    from aimodels.delivery.state import Mount
    from aimodels.jobs.observed import Held

#: a look without news: informers tell everything that happens sooner
_LOOK = 15.0
#: after a copy gave up, before it is tried again
_REST = 60.0
#: a Pod that waits for so long gets a new Job: its leave to read lapses after a day without a byte
_RENEW = timedelta(hours=12)
#: nothing tells why a Pod does not run yet
_LOOK_FOR_POD = 2.0


def decide(o: Observation, now: datetime) -> Plan:
    """Return what is to be done about the delivery as it was observed."""
    serial = _serial(o)
    tidying = _tidying(o, serial)
    if not o.wanted:
        return Plan(tidying)
    if o.model.digest is None or o.model.deleting:
        if _delivered(o, serial, None) is not None:
            return Plan(tidying)
        return Plan(tidying, blocked=_not_ready(o))
    return _next_step(o, serial, o.model.digest, tidying, now)


def _serial(o: Observation) -> int:
    known = [mount.claim for mount in o.mounts] + [fill.claim for fill in o.fills]
    return claims.choose(o.listed, o.model.digest, known)


def _next_step(o: Observation, serial: int, digest: str, tidying: tuple[Action, ...], now: datetime) -> Plan:
    fill = next((one for one in o.fills if _is_for(one, serial, digest)), None)
    mount = _delivered(o, serial, digest)
    if mount is not None:
        return Plan((*tidying, *_end_of(fill, mount)))
    if fill is None:
        return _start(o, serial, digest, tidying)
    if fill.claim.deleting or _is_of_another_class(o, fill.claim):
        abandon = () if fill.claim.deleting else (AbandonFill(fill.claim),)
        removing = _waiting("An earlier copy is being removed first.")
        return Plan((*tidying, *abandon), blocked=removing, again=_LOOK)
    if fill.copy is JobPhase.FAILED:
        return _after_failure(o, fill, tidying, now)
    if fill.copy is JobPhase.SUCCEEDED:
        return Plan((*tidying, HandOver(fill.claim)), blocked=_being_copied(o, serial), again=_LOOK)
    return _copy(o, fill, tidying, now)


def _copy(o: Observation, fill: Fill, tidying: tuple[Action, ...], now: datetime) -> Plan:
    blocked = _copying(o, fill, _held(fill, now))
    look = _LOOK if fill.running else _LOOK_FOR_POD
    if fill.copy is JobPhase.ABSENT:
        return Plan((*tidying, StartCopy(fill.claim, o.model.size_bytes)), blocked=blocked, again=look)
    held = fill.held
    if held is not None and held.lasts_too_long(now) and (o.crowded or _is_stale(held, now)):
        return Plan((*tidying, StepBack(fill.claim, _held(fill, now))), blocked=blocked, again=look)
    return Plan(tidying, blocked=blocked, again=look)


def _is_stale(held: Held, now: datetime) -> bool:
    """Tell whether a Pod that waits should have a new Job, though nobody else wants its place."""
    return held.outdated or now - held.since >= _RENEW


def _end_of(fill: Fill | None, mount: Mount) -> tuple[Action, ...]:
    """Return how a fill ends once its claim is there; one with another volume never takes this one."""
    if fill is None or fill.claim.deleting:
        return ()
    handed_over = mount.claim.volume == fill.claim.volume
    return (FinishHandOver(fill.claim) if handed_over else AbandonFill(fill.claim),)


def _after_failure(o: Observation, fill: Fill, tidying: tuple[Action, ...], now: datetime) -> Plan:
    blocked = fill.failure or _copying(o, fill)
    rested = (now - fill.failed_at).total_seconds() if fill.failed_at else _REST
    if rested < _REST:
        return Plan(tidying, blocked=blocked, again=_REST - rested)
    return Plan((*tidying, RestartCopy(fill.claim)), blocked=blocked, again=_LOOK)


def _start(o: Observation, serial: int, digest: str, tidying: tuple[Action, ...]) -> Plan:
    if isinstance(o.storage_class, Blocked):
        return Plan(tidying, blocked=o.storage_class)
    start = StartFill(serial, digest, o.model.size_bytes, o.storage_class)
    return Plan((*tidying, start), blocked=_being_copied(o, serial), again=_LOOK)


def _delivered(o: Observation, serial: int, digest: str | None) -> Mount | None:
    """Return the claim that serves the workloads; with a digest, only if it holds exactly that."""
    for mount in o.mounts:
        claim = mount.claim
        fits = digest is None or claim.digest == digest
        if claim.serial == serial and fits and claim.bound and not claim.deleting:
            return mount
    return None


def _is_for(fill: Fill, serial: int, digest: str) -> bool:
    return fill.claim.serial == serial and fill.claim.digest == digest


def _is_of_another_class(o: Observation, fill: Claim) -> bool:
    """Tell whether a claim has no volume yet and waits for a class that is not the chosen one any more."""
    return not fill.volume and isinstance(o.storage_class, str) and fill.storage_class != o.storage_class


def _tidying(o: Observation, serial: int) -> tuple[Action, ...]:
    """Return what goes: claims that nobody can want, fills that nobody waits for."""
    if not o.complete:
        return ()
    gone = not o.model.exists
    obsolete = [
        DeleteClaim(mount.claim)
        for mount in o.mounts
        if not mount.claim.deleting and (gone or _is_obsolete(o, mount, serial))
    ]
    unwanted = [
        AbandonFill(fill.claim)
        for fill in o.fills
        if not fill.claim.deleting
        and (
            gone or not o.wanted or (o.model.digest is not None and not _is_for(fill, serial, o.model.digest))
        )
    ]
    return (*unwanted, *obsolete)


def _is_obsolete(o: Observation, mount: Mount, serial: int) -> bool:
    claim = mount.claim
    if claim.lost and not any(_is_for(fill, claim.serial, claim.digest) for fill in o.fills):
        return True
    if mount.used:
        return False
    if not o.wanted:
        return True
    return o.model.digest is not None and (claim.digest != o.model.digest or claim.serial != serial)


def _not_ready(o: Observation) -> Blocked:
    reference, where = o.key.reference, o.key.model_namespace
    if not o.model.exists:
        place = f" in the namespace {where}" if where else ""
        return _waiting(f"There is no {reference}{place}. Create it, or correct the annotation.")
    if o.model.deleting:
        return _waiting(f"{reference} is being deleted.")
    phase = o.model.phase or Phase.PENDING
    return _waiting(f"{reference} is not Ready yet, it is {phase}. Its conditions say what it waits for.")


def _held(fill: Fill, now: datetime) -> str:
    """Return what holds the copy's Pod up, once that has lasted: every Pod waits a moment for something."""
    return f" Its Pod does not run: {fill.held.message}" if fill.held and fill.held.lasts(now) else ""


def _copying(o: Observation, fill: Fill, held: str = "") -> Blocked:
    claim = fill.claim
    if not claim.bound:
        return Blocked(
            Reason.SHARED_PVC_CLAIM_PENDING,
            f"The claim {claim.namespace}/{claim.name} of StorageClass {claim.storage_class} is not bound."
            f"{held} If it stays so, its events say why: "
            f"kubectl -n {claim.namespace} describe pvc {claim.name}",
        )
    return _being_copied(o, claim.serial, held)


def _being_copied(o: Observation, serial: int, held: str = "") -> Blocked:
    """Say the same while a copy goes on: every word that changes is a write on somebody's workload."""
    claim = claim_name(o.key.reference, serial)
    return _waiting(f"{o.key.reference} is being copied for the claim {claim}.{held}")


def _waiting(text: str) -> Blocked:
    return Blocked(Reason.SHARED_PVC_MATERIALIZER_PENDING, text)
