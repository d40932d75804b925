"""The status of an order. Pure: an observation in, the status out.

What belongs here: what is said. What does not: whether it is written (``wiring``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiinference.api.orders import InferenceServiceStatus
from aiinference.api.reasons import (
    Authentication,
    ExposureType,
    OrderCondition,
    OrderPhase,
    OrderReason,
    UpdateStrategy,
)
from aiinference.orders import details, words
from aiinference.orders.decide import closes, startup_seconds
from aiinference.probes import failures, health, startup
from aiinference.workload import names
from kubekit.conditions import find, set_condition

if TYPE_CHECKING:
    from datetime import datetime

    from aiinference.classes.policy import EffectivePolicy
    from aiinference.orders.state import Halt, Observation
    from kubekit.conditions import Condition, Status
    from kubekit.resources import StatefulSet

_BY_HAND = " Delete the Pods of the others when it suits: the class leaves that to you (OnDelete)."
_WITHOUT_KEY = (
    " It has no address outside until every replica asks for the key: those that do not have to be replaced, "
    "and to be gone."
)
_EARLIER_PLAN = "The launch is planned; what runs goes on by the plan that it was started with."
_ORDER = [str(one) for one in OrderCondition]


class _Sayings:
    """Conditions being put together; what is not said is gone."""

    def __init__(self, o: Observation, now: datetime) -> None:
        self._old = o.order.status.conditions if o.order.status else ()
        self._now = now
        self._generation = o.order.metadata.generation
        self.said: list[Condition] = []

    def say(self, type_: OrderCondition, status: Status, reason: OrderReason, message: str) -> None:
        """Add one condition."""
        old = self.old(type_)
        self.said += set_condition(
            (old,) if old else (),
            type_,
            status,
            reason,
            message,
            now=self._now,
            generation=self._generation,
        )

    def old(self, type_: OrderCondition) -> Condition | None:
        """Return what was said before."""
        return find(self._old, type_)

    def keep(self, *types: OrderCondition) -> None:
        """Say again what was said before."""
        self.said += [old for one in types if (old := self.old(one)) is not None]


def status(o: Observation, now: datetime) -> InferenceServiceStatus:
    """Return the order's status."""
    said = _Sayings(o, now)
    _sequence(o, said)
    _current(o, said)
    _working(o, said)
    ready = _ready(o, said)
    old = o.order.status or InferenceServiceStatus()
    policy, model = o.resolved.policy, o.resolved.model
    reached = policy is not None and o.resolved.plan is not None
    return InferenceServiceStatus(
        observed_generation=o.order.metadata.generation,
        phase=_phase(ready),
        model=old.model if model is None else details.served(model.resolution.endpoint_type),
        endpoint=details.endpoint(o) if reached else details.kept_endpoint(o, old.endpoint),
        auth_secret_name=_secret(o, policy) if reached else old.auth_secret_name,
        constraints=details.constraints(o) or old.constraints,
        resolved=details.placement(o) if details.runs_by_plan(o) else old.resolved,
        template_digest=o.record or old.template_digest,
        share=details.share(o.resolved.plan) if details.runs_by_plan(o) else old.share,
        startup=startup.progress(o.pods, o.health.ready_time, startup_seconds(o)) if o.workload else None,
        conditions=tuple(sorted(said.said, key=lambda one: _ORDER.index(one.type))),
    )


def _secret(o: Observation, policy: EffectivePolicy | None) -> str | None:
    keys = policy is not None and policy.exposure.authentication == Authentication.TOKEN
    return names.auth_secret(o.order.metadata.name) if keys else None


def _sequence(o: Observation, said: _Sayings) -> None:
    """Say how far the order got: class, model, plan."""
    halt, policy = o.resolved.halt, o.resolved.policy
    if halt is not None and halt.condition is OrderCondition.CLASS_RESOLVED:
        _halted(halt.condition, o, said)
    elif policy is not None and policy.class_name is None:
        said.say(
            OrderCondition.CLASS_RESOLVED,
            "True",
            OrderReason.BUILT_IN_POLICY,
            "The order names no class; the built-in policy holds.",
        )
    elif policy is not None:
        text = f"Class {policy.class_name} holds."
        said.say(OrderCondition.CLASS_RESOLVED, "True", OrderReason.CLASS_RESOLVED, text)
    if o.resolved.model is not None:
        name = o.resolved.model.facts.name
        said.say(
            OrderCondition.MODEL_RESOLVED, "True", OrderReason.MODEL_RESOLVED, f"Model {name} is served."
        )
    else:
        _halted(OrderCondition.MODEL_RESOLVED, o, said)
    if o.resolved.plan is not None and policy is not None and policy.accelerator is not None:
        text = f"The launch is planned, by recipe {o.resolved.plan.recipe.name}."
        if not details.runs_by_plan(o):
            known = said.old(OrderCondition.PLANNED)
            text = known.message if known and known.status == "True" else _EARLIER_PLAN
        said.say(OrderCondition.PLANNED, "True", OrderReason.LAUNCH_PLAN_CALCULATED, text)
    elif o.resolved.plan is None:
        _halted(OrderCondition.PLANNED, o, said)


def _halted(condition: OrderCondition, o: Observation, said: _Sayings) -> None:
    """Say what the sequence stopped at; what nothing was learnt about stays as it was said."""
    halt, old = o.resolved.halt, said.old(condition)
    if halt is None or halt.condition is not condition:
        if o.workload is not None or (halt is not None and halt.waits):
            said.keep(condition)
    elif halt.outage and old is not None and (halt.waits or old.status == "True"):
        said.keep(condition)
    else:
        said.say(condition, "False", halt.reason, halt.message)


def _current(o: Observation, said: _Sayings) -> None:
    """Say whether the replicas are those that are meant, or what the objects were refused for."""
    condition = OrderCondition.RUNTIME_CURRENT
    halt = o.acted or o.resolved.halt
    if halt is not None and halt.condition is condition:
        said.say(condition, "False", halt.reason, halt.message)
    elif halt is not None and halt.waits and _met_by_acting(o, said.old(condition)):
        said.keep(condition)
    elif o.workload is not None:
        wanted, now = _replicas(o.workload), o.workload.status
        if now.observed_generation >= o.workload.metadata.generation and now.updated_replicas >= wanted:
            text = f"All replicas run as planned.{_taken(o)}{_shut(o)}"
            said.say(condition, "True", OrderReason.RUNTIME_CURRENT, text)
        else:
            text = f"{now.updated_replicas} of {wanted} replicas run as planned."
            by_hand = o.workload.spec.update_strategy.type == UpdateStrategy.ON_DELETE
            said.say(condition, "False", OrderReason.UPDATING, f"{text}{_BY_HAND * by_hand}{_shut(o)}")


def _shut(o: Observation) -> str:
    """Say that an order which its class opens has no address because of its key."""
    known = o.resolved.policy or o.resolved.says
    if known is None or known.exposure.type != ExposureType.EXTERNAL or not closes(known.exposure, o):
        return ""
    return _WITHOUT_KEY


def _met_by_acting(o: Observation, old: Condition | None) -> bool:
    """Tell whether what was said is of making the order, which nobody tries while an answer is waited for."""
    if o.workload is None or _replicas(o.workload) == 0:
        return True
    return old is not None and old.reason not in {OrderReason.RUNTIME_CURRENT, OrderReason.UPDATING}


def _taken(o: Observation) -> str:
    """Say which host is another order's; whose it is, is for the administrator's log."""
    if o.instead is None:
        return ""
    return f" Host {o.instead} is that of another, older order, so this one has {o.host}."


def _working(o: Observation, said: _Sayings) -> None:
    """Say whether the replicas work, or what keeps them from it."""
    if o.workload is None:
        return
    wanted, ready = _replicas(o.workload), o.workload.status.ready_replicas
    condition, text = OrderCondition.WORKLOAD_READY, f"{ready} of {wanted} replicas are ready."
    failure = _failure(o)
    if ready >= wanted > 0:
        said.say(condition, "True", OrderReason.WORKLOAD_READY, text)
    elif failure is not None:
        said.say(condition, "False", failure.reason, failure.message)
    elif o.refused:
        told = f"Pods of the order are refused: {o.refused}"
        said.say(condition, "False", OrderReason.OBJECT_REFUSED, words.unless_new(told, said.old(condition)))
    else:
        said.say(condition, "False", OrderReason.STARTING, text)


def _replicas(workload: StatefulSet) -> int:
    return 1 if workload.spec.replicas is None else workload.spec.replicas


def _failure(o: Observation) -> failures.Failure | None:
    allowed = startup_seconds(o)
    return next((found for pod in o.pods if (found := failures.explain(pod, allowed)) is not None), None)


def _ready(o: Observation, said: _Sayings) -> Condition:
    """Say whether the order answers; before it ever did, what stands in the way."""
    halt: Halt | None = o.resolved.halt
    verdict = health.verdict(o.health)
    if o.health.well is not None and o.workload is not None:
        flag: Status = "True" if verdict.ready else "False"
        said.say(OrderCondition.READY, flag, verdict.reason, verdict.message)
    elif halt is not None and halt.waits and _waited_before(said):
        said.keep(OrderCondition.READY)
    elif halt is not None:
        said.say(OrderCondition.READY, "False", halt.reason, halt.message)
    elif o.workload is None:
        said.say(OrderCondition.READY, "False", OrderReason.PENDING, "The workload is being made.")
    else:
        working = find(said.said, OrderCondition.WORKLOAD_READY)
        if working is not None and working.status != "True":
            said.say(OrderCondition.READY, "False", OrderReason(working.reason), working.message)
        else:
            said.say(OrderCondition.READY, "False", verdict.reason, verdict.message)
    return said.said[-1]


def _waited_before(said: _Sayings) -> bool:
    old = said.old(OrderCondition.READY)
    return old is not None and old.status != "True"


def _phase(ready: Condition) -> OrderPhase:
    if ready.status == "True":
        return OrderPhase.READY
    return OrderPhase.FAILED if ready.reason == OrderReason.SERVICE_UNHEALTHY else OrderPhase.PENDING
