"""Whom of an order's Pods is asked what. Pure.

What belongs here: the Pods that are the order's, and what is known of their answers when a process begins.
What does not: asking them (``probing``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiinference.api.orders import InferenceServiceStatus
from aiinference.api.reasons import OrderCondition, UpdateStrategy
from aiinference.orders.probing import Target
from aiinference.probes import health, questions
from aiinference.workload import auth, names
from kubekit.conditions import find

if TYPE_CHECKING:
    from aiinference.api.orders import InferenceService
    from aiinference.orders.state import Observation
    from kubekit.resources import Pod, StatefulSet


def target(o: Observation, workload: StatefulSet, known_key: str | None) -> Target:
    """Return what is asked, by what runs and not by what is wanted now.

    ``known_key`` is the one that was asked with before, for while the Secret cannot be read.
    """
    noted = workload.metadata.annotations
    model = noted.get(names.MODEL_ANNOTATION) or noted.get(names.CLUSTER_MODEL_ANNOTATION) or ""
    resolved, known = o.resolved.model, o.order.status
    served = known.model.endpoint_type if known and known.model else None
    endpoint = resolved.resolution.endpoint_type if resolved else served
    plan = noted.get(names.PLAN_ANNOTATION, "")
    asked = [pod for pod in o.pods if _takes_requests(pod)]
    key = known_key if o.unread else (auth.probe_key(o.secret) if o.secret else None)
    return Target(
        order=o.order.metadata.uid,
        launch=noted.get(names.LAUNCH_ANNOTATION, ""),
        question=questions.question(endpoint, model),
        addresses=tuple(sorted(pod.status.pod_ip for pod in asked)),
        launched=all(_runs(pod, plan) for pod in asked),
        key=key,
        rolling=workload.rolling,
        by_hand=_replaced_by_hand(workload, o.pods, plan),
    )


def is_made_by(workload: StatefulSet | None, pod: Pod) -> bool:
    """Tell whether a Pod is a replica of the workload: anybody may give a Pod the labels of one."""
    if workload is None:
        return False
    return any(one.controller and one.uid == workload.metadata.uid for one in pod.metadata.owner_references)


def earlier(order: InferenceService, workload: StatefulSet | None) -> health.Health:
    """Return what an earlier process has said of the answers of this workload, not of one before it."""
    known = order.status or InferenceServiceStatus()
    ready = find(known.conditions, OrderCondition.READY)
    since = known.startup.ready_time if known.startup else None
    made = workload.metadata.creation_timestamp if workload else None
    if since and made and since < made:
        return health.Health()
    return health.resumed(ready.reason if ready else None, since)


def _takes_requests(pod: Pod) -> bool:
    ready = any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)
    return ready and bool(pod.status.pod_ip) and not pod.metadata.deleting


def _runs(pod: Pod, plan: str) -> bool:
    return pod.metadata.annotations.get(names.PLAN_ANNOTATION) == plan


def _replaced_by_hand(workload: StatefulSet, pods: tuple[Pod, ...], plan: str) -> bool:
    """Tell whether people are replacing the replicas, which their StatefulSet never says the end of."""
    if workload.spec.update_strategy.type != UpdateStrategy.ON_DELETE:
        return False
    wanted = 1 if workload.spec.replicas is None else workload.spec.replicas
    return len(pods) < wanted or any(not (_runs(pod, plan) and _was_up(pod)) for pod in pods)


def _was_up(pod: Pod) -> bool:
    runtime = next((one for one in pod.status.container_statuses if one.name == names.RUNTIME), None)
    return runtime is not None and bool(runtime.started or runtime.restart_count)
