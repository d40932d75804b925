"""The sequence of an order, each step asked only when the one before holds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

from aiinference.api.classes import InferenceServiceClass
from aiinference.api.reasons import OrderCondition, OrderReason
from aiinference.classes.policy import Https
from aiinference.models.outcomes import Refusal as ModelRefusal
from aiinference.orders.asking import DEADLINE, Desk
from aiinference.orders.observe import Sources, resolve
from aiinference.planner.client import PlannerUnavailable
from aiinference.planner.contract import LaunchPlan, Refusal, RefusalReason
from aiinference.planner.plan import Recipes
from aiinference.recipes.catalogue import shipped
from kubekit.store import Store
from tests.kit.ordersmodels import order
from tests.kit.orderstates import FACTS, planned

if TYPE_CHECKING:
    from aiinference.models.facts import ModelFacts
    from aiinference.models.reference import Reference
    from aiinference.orders.state import Halt
    from aiinference.planner.client import PlannerClient
    from aiinference.planner.contract import LaunchRequest


@dataclass
class Others:
    """Catalogue and planner that say what the test wants."""

    facts_said: ModelFacts | ModelRefusal = FACTS
    plan_said: LaunchPlan | Refusal | PlannerUnavailable | None = None
    asked: list[str] = field(default_factory=list)
    called: list[tuple[str, str]] = field(default_factory=list)
    #: who says nothing until this is set
    silent: str = ""
    speaks: asyncio.Event = field(default_factory=asyncio.Event)

    async def facts(self, _reference: Reference) -> ModelFacts | ModelRefusal:
        self.asked.append("catalogue")
        if self.silent == "catalogue":
            await self.speaks.wait()
        return self.facts_said

    async def plan(self, _request: LaunchRequest) -> LaunchPlan | Refusal:
        self.asked.append("planner")
        if self.silent == "planner":
            await self.speaks.wait()
        if isinstance(self.plan_said, PlannerUnavailable):
            raise self.plan_said
        assert self.plan_said is not None
        return self.plan_said


def klass(
    name: str = "llm", *, ready: bool = True, generation: int = 1, **spec: Any
) -> InferenceServiceClass:
    """Return a class whose first form was looked at."""
    since = "2026-01-01T00:00:00Z"
    said: dict[str, Any] = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "reason": "Ready",
        "message": "Missing.",
    }
    said |= {"observedGeneration": 1}
    raw = {
        "metadata": {"name": name, "resourceVersion": "1", "uid": name, "generation": generation},
        "spec": {"modelPolicy": {"allowedEndpointTypes": ["Chat"]}} | spec,
        "status": {"conditions": [said | {"lastTransitionTime": since}]},
    }
    return msgspec.convert(raw, InferenceServiceClass)


def sources(others: Others, *classes: InferenceServiceClass, has_domain: bool = True) -> Sources:
    store: Store[InferenceServiceClass] = Store("InferenceServiceClass")
    store.replace(classes)
    recipes = Recipes(shipped(), {"llama": "x"})
    return Sources(
        classes=store,
        catalogue=others,
        planner=cast("PlannerClient", others),
        recipes=recipes,
        module_https=Https("CertManager"),
        runtime_fallback=True,
        has_domain=has_domain,
        models=Desk(others.called.append),
        plans=Desk(others.called.append),
    )


async def halted(others: Others, *classes: InferenceServiceClass, name: str | None = "llm") -> Halt:
    found = await resolve(ordered(name), sources(others, *classes))
    assert found.halt is not None
    assert found.plan is None
    return found.halt


def ordered(name: str | None = "llm") -> Any:
    plain = order("qwen")
    return msgspec.structs.replace(
        plain, spec=msgspec.structs.replace(plain.spec, inference_service_class_name=name)
    )


async def test_a_class_that_does_not_hold_is_all_that_is_looked_at() -> None:
    others = Others()
    missing = await halted(
        others, klass("other"), klass("closed", admissionPolicy={"allowedNamespaces": ["x"]})
    )
    assert missing.reason is OrderReason.CLASS_NOT_FOUND
    assert missing.message == "There is no class llm. Open to this namespace: other."
    closed = await halted(others, klass(admissionPolicy={"allowedNamespaces": ["x"]}))
    assert closed.reason is OrderReason.NAMESPACE_NOT_ALLOWED
    assert closed.message.endswith("Open to it: no class.")
    unready = await halted(others, klass(ready=False))
    assert (unready.reason, unready.message) == (
        OrderReason.CLASS_NOT_READY,
        "Class llm cannot be used: Missing.",
    )
    assert others.asked == []


async def test_who_is_to_be_reached_from_outside_waits_for_a_domain() -> None:
    others = Others()
    inside = klass("inside", exposurePolicy={"type": "ClusterLocal"})
    for name, whose in (("llm", "Orders of class llm"), (None, "Orders without a class")):
        found = await resolve(ordered(name), sources(others, klass(), has_domain=False))
        assert found.halt is not None
        assert found.halt.condition is OrderCondition.CLASS_RESOLVED
        assert found.halt.reason is OrderReason.DOMAIN_MISSING
        assert found.halt.message.startswith(whose)
        assert "domainTemplate" in found.halt.message
    assert others.asked == []
    local = await resolve(ordered("inside"), sources(others, inside, has_domain=False))
    assert local.halt is None


async def test_what_was_said_of_an_earlier_form_of_a_class_says_nothing_of_this_one() -> None:
    others = Others()
    for ready in (True, False):
        found = await halted(others, klass(ready=ready, generation=2))
        assert found.reason is OrderReason.PENDING
        assert found.message == "Class llm was not looked at yet in its present form."
        assert found.outage
        assert found.waits
    assert others.asked == []


async def test_a_model_that_is_refused_needs_no_plan() -> None:
    others = Others(ModelRefusal(OrderReason.CATALOG_UNAVAILABLE, "Away."))
    found = await halted(others, klass(acceleratorPolicy={}))
    assert (found.condition, found.reason) == (OrderCondition.MODEL_RESOLVED, OrderReason.CATALOG_UNAVAILABLE)
    assert found.outage
    assert found.passing
    assert others.asked == ["catalogue"]


async def test_the_planner_is_asked_if_and_only_if_the_class_has_an_accelerator_policy() -> None:
    others = Others(plan_said=planned().plan)
    for name, expected in (("llm", []), ("gpu", ["planner"]), (None, [])):
        others.asked.clear()
        found = await resolve(ordered(name), sources(others, klass(), klass("gpu", acceleratorPolicy={})))
        assert found.halt is None
        assert isinstance(found.plan, LaunchPlan)
        assert others.asked == ["catalogue", *expected]


async def test_a_planner_that_is_away_is_an_outage_and_a_refusal_is_none() -> None:
    away = await halted(Others(plan_said=PlannerUnavailable("silent")), klass(acceleratorPolicy={}))
    assert (away.condition, away.reason, away.outage) == (
        OrderCondition.PLANNED,
        OrderReason.PLANNER_UNAVAILABLE,
        True,
    )
    full = Refusal(reason=RefusalReason.NO_CAPACITY, message="Full.", next_step="Wait.")
    found = await halted(Others(plan_said=full), klass(acceleratorPolicy={}))
    assert (found.reason, found.message) == (OrderReason.NO_CAPACITY, "Full. Wait.")
    assert (found.outage, found.passing) == (False, True)


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("silent", "condition"),
    [("catalogue", OrderCondition.MODEL_RESOLVED), ("planner", OrderCondition.PLANNED)],
)
async def test_whoever_hangs_keeps_no_order_and_is_listened_to_when_he_speaks(
    silent: str, condition: OrderCondition
) -> None:
    others = Others(plan_said=planned().plan, silent=silent)
    known, began = sources(others, klass(acceleratorPolicy={})), asyncio.get_running_loop().time()
    found = (await resolve(ordered(), known)).halt
    assert asyncio.get_running_loop().time() - began < 1
    assert found is not None
    assert (found.condition, found.reason) == (condition, OrderReason.PENDING)
    assert (found.outage, found.waits) == (True, True)
    assert f"The {silent} has been asked" in found.message
    assert others.called == []
    others.speaks.set()
    await asyncio.sleep(1)
    assert others.called == [ordered().metadata.key]
    assert (await resolve(ordered(), known)).halt is None
    assert others.asked.count(silent) == 1


@pytest.mark.looptime
@pytest.mark.parametrize(("silent", "reason"), [("catalogue", "Catalog"), ("planner", "Planner")])
async def test_whoever_hangs_for_good_is_said_to(silent: str, reason: str) -> None:
    others = Others(plan_said=planned().plan, silent=silent)
    known = sources(others, klass(acceleratorPolicy={}))
    await resolve(ordered(), known)
    await asyncio.sleep(DEADLINE + 1)
    found = (await resolve(ordered(), known)).halt
    assert found is not None
    assert found.reason == f"{reason}Unavailable"
    assert (found.outage, found.passing, found.waits) == (True, True, False)


async def test_device_classes_that_have_nothing_in_common() -> None:
    plain = ordered("gpu")
    raw = msgspec.to_builtins(plain.spec) | {"resources": {"accelerator": {"deviceClasses": ["b"]}}}
    wanting = msgspec.structs.replace(plain, spec=msgspec.convert(raw, type(plain.spec)))
    others = Others()
    gpu = klass("gpu", acceleratorPolicy={"allowedDeviceClasses": ["a"]})
    found = await resolve(wanting, sources(others, gpu))
    assert found.halt is not None
    assert found.halt.reason is OrderReason.CLAIM_DEVICE_MISSING
    assert others.asked == ["catalogue"]
