"""What is known of an order at one moment.

What belongs here: frozen values. What does not: where they come from (``observe``), what follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiinference.api.orders import InferenceService
    from aiinference.api.reasons import OrderCondition, OrderReason
    from aiinference.classes.policy import EffectivePolicy
    from aiinference.models.resolving import ResolvedModel
    from aiinference.planner.contract import LaunchPlan
    from aiinference.probes.health import Health
    from kubekit.errors import ApiError
    from kubekit.resources import Pod, Secret, StatefulSet


@dataclass(frozen=True, slots=True)
class Halt:
    """What the sequence stops at: the condition that does not hold, and why."""

    condition: OrderCondition
    reason: OrderReason
    message: str
    #: nothing was learnt: what was said before still holds
    outage: bool = False
    #: an answer is on its way, and the order is looked at again when it comes
    waits: bool = False
    #: whether asking again later may help although neither order nor class has changed
    passing: bool = False
    #: whether what failed may be well in a moment: asked again with back-off, and not after a fixed time
    soon: bool = False
    #: what closes the order was refused: its host still leads to it
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Resolved:
    """How far the sequence got; what lies behind the halt is None."""

    halt: Halt | None
    policy: EffectivePolicy | None = None
    model: ResolvedModel | None = None
    plan: LaunchPlan | None = None
    #: what the class says although it does not hold for the order: it may close what runs, and nothing else
    says: EffectivePolicy | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """An order and everything that its status and its objects follow from."""

    order: InferenceService
    resolved: Resolved
    #: the host that is the order's, or will be
    host: str | None
    workload: StatefulSet | None
    pods: tuple[Pod, ...]
    secret: Secret | None
    health: Health
    #: why the order's Secret could not be read
    unread: ApiError | None = None
    #: the host that another order has instead of this one
    instead: str | None = None
    #: digests of the records that this controller has put on StatefulSets of the order
    records: frozenset[str] = frozenset()
    #: that of the newest one
    record: str | None = None
    #: why Pods of the workload are not made, in the cluster's words
    refused: str = ""
    #: what keeping up what runs has met
    acted: Halt | None = None
