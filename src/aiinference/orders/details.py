"""What a status says beside its conditions: address, bounds, placement. Pure.

What belongs here: these values. What does not: the conditions, and putting all together (``report``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiinference.api.orders import ConstraintsStatus, EndpointStatus, ModelStatus, ResolvedStatus
from aiinference.api.reasons import ExposureType
from aiinference.orders import decide
from aiinference.workload import names, network

if TYPE_CHECKING:
    from aiinference.orders.state import Observation
    from aiinference.planner.contract import LaunchPlan


def served(endpoint_type: str | None) -> ModelStatus | None:
    """Return as what the model is served."""
    return ModelStatus(endpoint_type=endpoint_type) if endpoint_type else None


def endpoint(o: Observation) -> EndpointStatus:
    """Return the address of an order that is decided; without an URL while it is closed."""
    order, policy = o.order.metadata, o.resolved.policy
    assert policy is not None  # noqa: S101 - asked by the caller
    outside = policy.exposure.type == ExposureType.EXTERNAL and o.host
    is_open = outside and not decide.closes(policy.exposure, o)
    return EndpointStatus(
        type=policy.exposure.type,
        url=f"{network.scheme(policy.exposure.https)}://{o.host}" if is_open else None,
        domain=o.host if outside else _held(o),
        in_cluster_url=f"http://{order.name}.{order.namespace}.svc",
    )


def kept_endpoint(o: Observation, old: EndpointStatus | None) -> EndpointStatus | None:
    """Return the address of what runs while nothing new is decided; a class may close it all the same."""
    kept = decide.upkeep(o)
    if old is None or kept is None or not kept.closed:
        return old
    policy = o.resolved.policy or o.resolved.says
    local = policy is not None and policy.exposure.type == ExposureType.CLUSTER_LOCAL
    return EndpointStatus(
        type=ExposureType.CLUSTER_LOCAL if local else old.type,
        domain=_held(o) if local else old.domain,
        in_cluster_url=old.in_cluster_url,
    )


def _held(o: Observation) -> str | None:
    """Return the host of an order that is to be closed: no other order is given it before that is done."""
    halt, old = o.acted or o.resolved.halt, o.order.status.endpoint if o.order.status else None
    return old.domain if old and halt and halt.is_open else None


def constraints(o: Observation) -> ConstraintsStatus | None:
    """Return the bounds that the class has set."""
    policy, model = o.resolved.policy, o.resolved.model
    if policy is None:
        return None
    old = o.order.status.constraints if o.order.status else None
    scope = model.resolution.scope if model else (old.model_scope if old else None)
    return ConstraintsStatus(
        min_replicas=policy.min_replicas, max_replicas=policy.max_replicas, model_scope=scope
    )


def runs_by_plan(o: Observation) -> bool:
    """Tell whether there is a plan, and what runs was made from it: a newer plan alone restarts nothing."""
    plan, workload = o.resolved.plan, o.workload
    if plan is None or workload is None:
        return plan is not None
    return workload.metadata.annotations.get(names.PLAN_ANNOTATION) == plan.digest


def placement(o: Observation) -> ResolvedStatus | None:
    """Return the placement, for orders whose class has an accelerator policy."""
    plan, policy = o.resolved.plan, o.resolved.policy
    if plan is None or policy is None or policy.accelerator is None:
        return None
    found = plan.resolved
    return ResolvedStatus(
        device_class=found.device_class,
        accelerator_product_name=found.accelerator_product_name,
        accelerator_memory_gib=found.accelerator_memory_gib,
        placement_mode=found.placement_mode,
        sharing_mode=found.sharing_mode,
        share_percent=found.share_percent,
        replan_count=found.replan_count,
    )


def share(plan: LaunchPlan | None) -> str | None:
    """Return how much of an accelerator a replica has."""
    percent = plan.resolved.share_percent if plan else None
    return f"{percent}%" if percent is not None else None
