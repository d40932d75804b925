"""What workloads are told while a delivery fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from aimodels.delivery.deliveries import DeliveryReconciler
from aimodels.delivery.handover import NamespaceGone
from aimodels.delivery.names import DeliveryKey
from aimodels.delivery.report import Outcomes
from aimodels.delivery.slots import Slots
from aimodels.delivery.state import ModelState, Observation
from kubekit.errors import Transient
from opskit.clock import ManualClock

if TYPE_CHECKING:
    from aimodels.delivery.state import Blocked

KEY = DeliveryKey("team", "Model", "llm")
READY = ModelState(exists=True, phase="Ready", digest="sha256:x", size_bytes=1)


class World:
    """A delivery that is to be begun, and an actor that fails as long as it is told to."""

    def __init__(self) -> None:
        self.trouble: list[Exception] = []
        self.clock = ManualClock()
        self.outcomes = Outcomes(lambda _: None)
        me = cast("Any", self)
        self.slots = Slots(1)
        self.reconciler = DeliveryReconciler(me, me, self.slots, self.outcomes, self.clock)

    async def observe(self, key: DeliveryKey) -> Observation:
        return Observation(key, READY, wanted=True, storage_class="shared")

    async def carry_out(self, key: DeliveryKey, *_: object) -> Blocked | None:
        assert self.slots.take(key, ())
        if self.trouble:
            raise self.trouble.pop()
        return None

    async def told(self, *trouble: Exception) -> str:
        self.trouble = [*trouble]
        if trouble:
            with pytest.raises(Transient):
                await self.reconciler.reconcile(KEY)
        else:
            await self.reconciler.reconcile(KEY)
        blocked = self.outcomes.blocked(KEY)
        assert blocked is not None
        return blocked.message


async def test_why_a_delivery_fails_is_told_once_that_has_lasted() -> None:
    world = World()
    plain = await world.told(Transient("StorageUnavailable", "the registry does not answer: first"))
    assert "registry" not in plain
    await world.clock.advance(10)
    lasting = await world.told(Transient("StorageUnavailable", "the registry does not answer: second"))
    assert lasting.startswith(plain)
    assert "It does not go on: StorageUnavailable: the registry does not answer: first" in lasting
    assert await world.told() == plain
    assert await world.told(Transient("StorageUnavailable", "third")) == plain, "a new trouble begins anew"


async def test_a_copy_that_cannot_begin_holds_no_place() -> None:
    world = World()
    await world.told(Transient("StorageUnavailable", "the registry does not answer"))
    assert world.slots.take(DeliveryKey("team", "Model", "another"), ())


async def test_a_namespace_that_is_gone_keeps_nobody_waiting() -> None:
    world = World()
    world.trouble = [NamespaceGone("team")]
    await world.reconciler.reconcile(KEY)
    assert not world.outcomes.known(KEY)
    assert world.slots.waiting == ()
    assert world.slots.take(DeliveryKey("other", "Model", "llm"), ())
