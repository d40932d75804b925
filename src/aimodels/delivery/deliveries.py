"""One model in one namespace: observe, decide, act, tell.

What belongs here: the order of the four. What does not: any of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aimodels.delivery.decide import decide
from aimodels.delivery.handover import NamespaceGone
from aimodels.delivery.state import RestartCopy, StartCopy, StartFill
from kubekit.controller import Again, Done
from kubekit.errors import KubeError, Transient

if TYPE_CHECKING:
    from aimodels.delivery.act import Actor
    from aimodels.delivery.names import DeliveryKey
    from aimodels.delivery.observe import Observer
    from aimodels.delivery.report import Outcomes
    from aimodels.delivery.slots import Slots
    from aimodels.delivery.state import Blocked, Observation
    from opskit.clock import Clock


#: nothing tells when a quota has room again or a place is free
_ASK_AGAIN = 5.0
#: failing for so long is told; a restart of what we talk to is shorter
_TOLD_AFTER = 10.0


class DeliveryReconciler:
    """Reconciles deliveries."""

    def __init__(
        self, observer: Observer, actor: Actor, slots: Slots, outcomes: Outcomes, clock: Clock
    ) -> None:
        self._observer = observer
        self._actor = actor
        self._slots = slots
        self._outcomes = outcomes
        self._clock = clock
        self._failing: dict[DeliveryKey, tuple[float, str]] = {}

    async def reconcile(self, key: DeliveryKey) -> Done | Again:
        """Take the delivery as far as it can go now."""
        seen = await self._observer.observe(key)
        plan = decide(seen, self._clock.now())
        if not any(isinstance(action, StartFill | StartCopy | RestartCopy) for action in plan.actions):
            # What is begun is shown by the informer now, and counted by that.
            self._slots.leave(key)
        blocked, again = plan.blocked, plan.again
        try:
            for action in plan.actions:
                refused = await self._actor.carry_out(key, action)
                if refused is not None:
                    blocked, again = refused, _ASK_AGAIN
        except NamespaceGone:
            self._slots.leave(key)
            self._failing.pop(key, None)
            self._outcomes.forget(key)
            return Done()
        except (KubeError, Transient) as error:
            # A copy that cannot begin holds no place; one that has begun is shown by its Job.
            self._slots.leave(key)
            self._tell(seen, self._troubled(key, plan.blocked, error))
            raise
        self._failing.pop(key, None)
        self._tell(seen, blocked)
        return Done() if again is None else Again(again)

    def _troubled(self, key: DeliveryKey, blocked: Blocked | None, error: Exception) -> Blocked | None:
        """Return what is told while the delivery fails: also why, once that has lasted.

        The text of the first error is kept: one that names something new each time would be written anew.
        """
        now = self._clock.monotonic()
        since, text = self._failing.setdefault(key, (now, str(error)))
        if blocked is None or now - since < _TOLD_AFTER:
            return blocked
        return replace(blocked, message=f"{blocked.message} It does not go on: {text}")

    def _tell(self, seen: Observation, blocked: Blocked | None) -> None:
        if seen.wanted:
            self._outcomes.tell(seen.key, blocked)
        else:
            self._outcomes.forget(seen.key)
