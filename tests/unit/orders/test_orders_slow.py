"""An order whose questions are never answered at once goes on all the same."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import msgspec
import pytest

from aiinference.api.reasons import OrderReason
from aiinference.classes.policy import Https
from aiinference.orders import decide, report
from aiinference.orders.asking import PATIENCE, Desk
from aiinference.orders.observe import Sources, resolve
from aiinference.orders.state import Halt
from aiinference.planner.plan import Recipes
from aiinference.recipes.catalogue import shipped
from aiinference.workload import frozen, statefulset
from aiinference.workload.intent import Settings
from kubekit.conditions import find
from kubekit.store import Store
from tests.kit.ordersactor import World
from tests.kit.ordersmodels import order, policy
from tests.kit.orderstates import FACTS, NOW, observed, planned, workload

if TYPE_CHECKING:
    from aiinference.api.classes import InferenceServiceClass
    from aiinference.models.facts import ModelFacts
    from aiinference.models.reference import Reference
    from aiinference.planner.client import PlannerClient

RECREATE = replace(policy("llm", "Chat"), update_strategy="Recreate")
SETTINGS = Settings(gate_image="gate")


class Slow:
    """A catalogue that knows a newer model, and needs longer for it than anybody waits."""

    async def facts(self, _: Reference) -> ModelFacts:
        await asyncio.sleep(2 * PATIENCE)
        return msgspec.structs.replace(FACTS, digest="sha256:newer")


def sources() -> Sources:
    classes: Store[InferenceServiceClass] = Store("InferenceServiceClass")
    recipes = Recipes(shipped(), {"llama": "x"})
    planner = cast("PlannerClient", None)
    return Sources(
        classes,
        Slow(),
        planner,
        recipes,
        Https("Disabled"),
        runtime_fallback=True,
        has_domain=True,
        models=Desk(lambda _: None),
        plans=Desk(lambda _: None),
    )


@pytest.mark.looptime
async def test_replicas_that_end_for_a_new_launch_are_not_begun_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aiinference.orders.observe._policy", lambda *_: RECREATE)
    earlier = decide.intent(observed(planned(RECREATE)))
    assert earlier is not None
    noted = statefulset.stateful_set(earlier, SETTINGS)["metadata"]["annotations"]
    running, world, known = workload(noted=noted), World(), sources()
    status = report.status(observed(planned(RECREATE), running=running), NOW)
    said = set()
    for _ in range(8):
        resolved = await resolve(order("qwen"), known)
        o = observed(resolved, running=running, earlier=status)
        acted = await world.act(replace(o, records=frozenset({frozen.digest(noted)})))
        halted = replace(resolved, halt=resolved.halt or (acted if isinstance(acted, Halt) else None))
        status = report.status(replace(o, resolved=halted), NOW)
        spec = msgspec.structs.replace(running.spec, replicas=world.server.replicas[-1])
        head = msgspec.structs.replace(running.metadata, generation=world.server.generation)
        running = msgspec.structs.replace(running, metadata=head, spec=spec)
        current = find(status.conditions, "RuntimeCurrent")
        assert current is not None
        if 0 in world.server.replicas:
            said.add((current.reason, current.message))
        await asyncio.sleep(3 * PATIENCE)
    started = world.server.replicas.index(0)
    assert set(world.server.replicas[started:]) == {0}
    assert [reason for reason, _ in said] == [OrderReason.UPDATING]
