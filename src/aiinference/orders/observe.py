"""The sequence of an order: class, model, plan. Each step is asked only when the one before holds.

What belongs here: asking, and putting the answers together. What does not: what is made of them (``decide``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiinference.api.reasons import ClassCondition, ExposureType, OrderCondition, OrderReason
from aiinference.classes.policy import effective
from aiinference.models.outcomes import Refusal as ModelRefusal
from aiinference.models.resolving import model_of
from aiinference.orders.asking import DEADLINE, Unanswered
from aiinference.orders.state import Halt, Resolved
from aiinference.planner.asking import NoDeviceClass, launch_request
from aiinference.planner.client import PlannerUnavailable
from aiinference.planner.contract import LaunchPlan
from aiinference.planner.plan import on_processor
from kubekit.conditions import find

if TYPE_CHECKING:
    from aiinference.api.classes import InferenceServiceClass
    from aiinference.api.orders import InferenceService
    from aiinference.classes.policy import EffectivePolicy, Https
    from aiinference.models.catalogue import Catalogue
    from aiinference.models.resolving import ResolvedModel
    from aiinference.orders.asking import Desk
    from aiinference.planner.client import PlannerClient
    from aiinference.planner.contract import Answer
    from aiinference.planner.plan import Recipes
    from kubekit.store import Store

_SHOWN = 8


@dataclass(frozen=True)
class Sources:
    """Whom an order's sequence asks."""

    classes: Store[InferenceServiceClass]
    catalogue: Catalogue
    planner: PlannerClient
    recipes: Recipes
    module_https: Https
    runtime_fallback: bool
    #: whether the installation has a domain for hosts of orders
    has_domain: bool
    #: where the questions to catalogue and planner go on when they are not answered at once
    models: Desk[ResolvedModel | ModelRefusal]
    plans: Desk[Answer]


async def resolve(order: InferenceService, sources: Sources) -> Resolved:
    """Return how far the order gets, and what it stops at."""
    policy = _policy(order, sources)
    if isinstance(policy, Halt):
        return Resolved(policy, says=_says(order, sources))
    model = await _model(order, policy, sources)
    if isinstance(model, Halt):
        return Resolved(model, policy)
    plan = await _plan(order, policy, model, sources)
    if isinstance(plan, Halt):
        return Resolved(plan, policy, model)
    return Resolved(None, policy, model, plan)


def _policy(order: InferenceService, sources: Sources) -> EffectivePolicy | Halt:
    """Return what holds for the order, or why its class does not."""
    name, namespace = order.spec.inference_service_class_name, order.metadata.namespace
    if name is None:
        policy = effective(None, sources.module_https)
        return _without_address(policy, sources) or policy
    klass = sources.classes.get("", name)
    if klass is None:
        text = f"There is no class {name}. Open to this namespace: {_open_to(namespace, sources)}."
        return _halt(OrderReason.CLASS_NOT_FOUND, text)
    policy = effective(klass, sources.module_https)
    if not policy.admits(namespace):
        return _halt(
            OrderReason.NAMESPACE_NOT_ALLOWED,
            f"Class {name} does not take orders from namespace {namespace}. Open to it: "
            f"{_open_to(namespace, sources)}.",
        )
    return _usable(klass) or _without_address(policy, sources) or policy


def _says(order: InferenceService, sources: Sources) -> EffectivePolicy | None:
    """Return what the order's class says, whether or not it holds; None when there is no class."""
    name = order.spec.inference_service_class_name
    klass = sources.classes.get("", name) if name is not None else None
    return None if name is not None and klass is None else effective(klass, sources.module_https)


def _usable(klass: InferenceServiceClass) -> Halt | None:
    """Return why the class cannot be used; what was said about an earlier form of it says nothing of this."""
    name = klass.metadata.name
    ready = find(klass.status.conditions if klass.status else (), ClassCondition.READY)
    if ready is None or ready.observed_generation != klass.metadata.generation:
        text = f"Class {name} was not looked at yet in its present form."
        return Halt(OrderCondition.CLASS_RESOLVED, OrderReason.PENDING, text, outage=True, waits=True)
    if ready.status != "True":
        return _halt(OrderReason.CLASS_NOT_READY, f"Class {name} cannot be used: {ready.message}")
    return None


def _without_address(policy: EffectivePolicy, sources: Sources) -> Halt | None:
    """Return why an order that is to be reached from outside could never be."""
    if policy.exposure.type != ExposureType.EXTERNAL or sources.has_domain:
        return None
    whose = f"Orders of class {policy.class_name}" if policy.class_name else "Orders without a class"
    return _halt(
        OrderReason.DOMAIN_MISSING,
        f"{whose} are reached from outside the cluster, and there is no domain for their hosts. Ask the "
        "administrator to set one (domainTemplate, under Deckhouse the global publicDomainTemplate), or "
        "order under a class of type ClusterLocal.",
    )


def _open_to(namespace: str, sources: Sources) -> str:
    names = sorted(
        klass.metadata.name
        for klass in sources.classes.list()
        if effective(klass, sources.module_https).admits(namespace)
    )
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "no class"


async def _model(order: InferenceService, policy: EffectivePolicy, sources: Sources) -> ResolvedModel | Halt:
    """Return the order's model, or why it has none."""
    key, condition, named = order.metadata.key, OrderCondition.MODEL_RESOLVED, order.spec.model.ref
    away = f"The catalogue has been asked about {named.kind} {named.name} and"
    try:
        found = await sources.models.ask(
            key,
            (order.metadata.uid, order.spec, policy),
            lambda: model_of(order, policy, sources.catalogue),
        )
    except Unanswered:
        text = f"{away} has not answered yet; the order goes on when it does."
        return Halt(condition, OrderReason.PENDING, text, outage=True, waits=True)
    except TimeoutError:
        text = f"{away} did not answer within {DEADLINE:g} s. It is asked again."
        return Halt(condition, OrderReason.CATALOG_UNAVAILABLE, text, outage=True, passing=True)
    if isinstance(found, ModelRefusal):
        return Halt(condition, found.reason, found.message, outage=found.outage, passing=found.passing)
    return found


async def _plan(
    order: InferenceService, policy: EffectivePolicy, model: ResolvedModel, sources: Sources
) -> LaunchPlan | Halt:
    """Return the plan: the planner's where the class has an accelerator policy, else the processor's."""
    try:
        request = launch_request(
            order, policy, model.facts, model.resolution, runtime_fallback=sources.runtime_fallback
        )
        if policy.accelerator is None:
            answer = on_processor(request, sources.recipes)
        else:
            asked = (order.metadata.uid, request)
            answer = await sources.plans.ask(order.metadata.key, asked, lambda: sources.planner.plan(request))
    except NoDeviceClass as error:
        return Halt(OrderCondition.PLANNED, OrderReason.CLAIM_DEVICE_MISSING, str(error))
    except Unanswered:
        text = "The planner has been asked and has not answered yet; the order goes on when it does."
        return Halt(OrderCondition.PLANNED, OrderReason.PENDING, text, outage=True, waits=True)
    except (PlannerUnavailable, TimeoutError) as error:
        why = error if isinstance(error, PlannerUnavailable) else PlannerUnavailable("the planner hangs")
        text = f"There is no plan, as {why}. It is asked for again."
        return Halt(OrderCondition.PLANNED, why.reason, text, outage=True, passing=True)
    if isinstance(answer, LaunchPlan):
        return answer
    reason = OrderReason(answer.reason)
    return Halt(
        OrderCondition.PLANNED,
        reason,
        f"{answer.message} {answer.next_step}",
        passing=reason is OrderReason.NO_CAPACITY,
    )


def _halt(reason: OrderReason, message: str) -> Halt:
    return Halt(OrderCondition.CLASS_RESOLVED, reason, message)
