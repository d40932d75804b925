"""What is said about a class. Pure: an observation and the time come in, the status goes out.

What belongs here: whether the policies fit together (``Validated``) and whether what they name is there
(``Ready``). What does not: rules that the API server itself enforces, and what a class means (``policy``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from aiinference.api.classes import InferenceServiceClassStatus
from aiinference.api.reasons import ClassCondition, ClassPhase, Fallback, SharingMode
from aiinference.api.reasons import ClassReason as Reason
from kubekit.conditions import set_condition

if TYPE_CHECKING:
    from datetime import datetime

    from aiinference.api.classes import AcceleratorPolicy, InferenceServiceClass

_WHOLE = 100


@dataclass(frozen=True, slots=True)
class Observation:
    """A class and the names of what the cluster has."""

    klass: InferenceServiceClass
    device_classes: frozenset[str] = frozenset()
    priority_classes: frozenset[str] = frozenset()


class _Verdict(NamedTuple):
    holds: bool
    reason: Reason
    message: str


def decide(o: Observation, now: datetime) -> InferenceServiceClassStatus:
    """Return the class's status; saying the same again is no change."""
    valid = _validated(o.klass)
    ready = _ready(o) if valid.holds else _Verdict(holds=False, reason=valid.reason, message=valid.message)
    old = o.klass.status or InferenceServiceClassStatus()
    conditions = old.conditions
    for kind, verdict in ((ClassCondition.VALIDATED, valid), (ClassCondition.READY, ready)):
        conditions = set_condition(
            conditions,
            kind,
            "True" if verdict.holds else "False",
            verdict.reason,
            verdict.message,
            now=now,
            generation=o.klass.metadata.generation,
        )
    return InferenceServiceClassStatus(
        observed_generation=o.klass.metadata.generation,
        phase=_phase(valid, ready),
        conditions=conditions,
    )


def _phase(valid: _Verdict, ready: _Verdict) -> ClassPhase:
    if not valid.holds:
        return ClassPhase.FAILED
    return ClassPhase.READY if ready.holds else ClassPhase.PENDING


def _validated(klass: InferenceServiceClass) -> _Verdict:
    policy = klass.spec.accelerator_policy
    wrong = _contradiction(policy) if policy else None
    if wrong:
        return _Verdict(holds=False, reason=Reason.ACCELERATOR_POLICY_VIOLATION, message=wrong)
    return _Verdict(holds=True, reason=Reason.VALIDATED, message="The policies fit together.")


def _contradiction(policy: AcceleratorPolicy) -> str | None:
    least, most = policy.min_share_percent or 1, policy.max_share_percent or _WHOLE
    if least > most:
        return (
            f"acceleratorPolicy.minSharePercent {least} is above maxSharePercent {most}, so that no share is "
            "left. Lower the one or raise the other."
        )
    if most < _WHOLE and policy.allowed_sharing_modes == (SharingMode.DEDICATED,):
        return (
            f"acceleratorPolicy allows Dedicated devices only, which are whole, and at most {most} % of one. "
            "Allow Shared, or leave maxSharePercent out."
        )
    return None


def _ready(o: Observation) -> _Verdict:
    scaling = o.klass.spec.scaling_policy
    priority = next(iter(scaling.allowed_priority_class_names), None) if scaling else None
    if priority is not None and priority not in o.priority_classes:
        text = (
            f"PriorityClass {priority}, which orders of this class get, does not exist. Create it, or name "
            "another one first in scalingPolicy.allowedPriorityClassNames."
        )
        return _Verdict(holds=False, reason=Reason.PRIORITY_CLASS_MISSING, message=text)
    policy = o.klass.spec.accelerator_policy
    return _devices(policy, o.device_classes) if policy else _usable()


def _devices(policy: AcceleratorPolicy, present: frozenset[str]) -> _Verdict:
    missing = sorted(set(policy.allowed_device_classes) - present)
    if not missing:
        return _usable()
    names = ", ".join(missing)
    if len(missing) == len(set(policy.allowed_device_classes)) and policy.fallback != Fallback.CPU:
        text = (
            f"None of the allowed DeviceClasses exists: {names}. Correct "
            "acceleratorPolicy.allowedDeviceClasses, or wait until the cluster has one of them."
        )
        return _Verdict(holds=False, reason=Reason.DEVICE_CLASS_MISSING, message=text)
    return _usable(f" These DeviceClasses do not exist and are passed over: {names}.")


def _usable(more: str = "") -> _Verdict:
    return _Verdict(holds=True, reason=Reason.READY, message=f"Orders may use the class.{more}")
