"""What the planner is asked for an order: the request from the order, its policy and its model's facts.

What belongs here: that translation, pure. What does not: asking (``client``) and planning (``plan``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from aiinference.api.reasons import Fallback, LaunchStrategy, PlacementMode, SharingMode
from aiinference.classes.policy import device_classes
from aiinference.planner.contract import AcceleratorConstraints, LaunchRequest, Model, RuntimeFallback
from modelkit.facts import Geometry

if TYPE_CHECKING:
    from aiinference.api.orders import InferenceService
    from aiinference.classes.policy import Accelerator, EffectivePolicy
    from aiinference.models.facts import ModelFacts
    from aiinference.models.outcomes import Resolution


class NoDeviceClass(Exception):
    """Order and class have no device class in common; the text says which each has."""


def launch_request(
    order: InferenceService,
    policy: EffectivePolicy,
    facts: ModelFacts,
    resolution: Resolution,
    *,
    runtime_fallback: bool = True,
    replan_count: int = 0,
) -> LaunchRequest:
    """Return what is asked; ``NoDeviceClass`` when the order narrows the class's list to nothing."""
    geometry = facts.facts or Geometry()
    known = {
        name: getattr(facts, name)
        for name in Model.__struct_fields__
        if name in facts.__struct_fields__ and name != "facts"
    }
    return LaunchRequest(
        # The template is of no use for a plan, and the largest of the facts.
        model=Model(facts=msgspec.structs.replace(geometry, chat_template=None), **known),
        endpoint_type=resolution.endpoint_type,
        launch_strategy=LaunchStrategy(order.spec.launch_strategy),
        accelerator=_constraints(order, policy.accelerator),
        parameter_count=resolution.parameter_count,
        runtime_fallback=RuntimeFallback(enabled=runtime_fallback),
        replan_count=replan_count,
    )


def _constraints(order: InferenceService, allowed: Accelerator | None) -> AcceleratorConstraints:
    if allowed is None:
        return AcceleratorConstraints()
    wanted = order.spec.resources.accelerator if order.spec.resources else None
    ordered = wanted.device_classes if wanted else ()
    common = device_classes(allowed.allowed_device_classes, ordered)
    if common == ():
        has = _list(allowed.allowed_device_classes or ())
        raise NoDeviceClass(
            f"The order wants {_list(ordered)}, its class allows {has}. "
            "Name a device class of the class in spec.resources.accelerator.deviceClasses, or leave it out."
        )
    return AcceleratorConstraints(
        device_classes=common,
        sharing_modes=tuple(SharingMode(mode) for mode in allowed.sharing_modes),
        placement_types=tuple(PlacementMode(mode) for mode in allowed.placement_types),
        max_count=allowed.max_count,
        min_share_percent=allowed.min_share,
        max_share_percent=allowed.max_share,
        fallback=Fallback(allowed.fallback),
    )


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"
