"""``aictl why``: what an order, a model or a workload waits for, since when, and the next step.

What belongs here: reading what hangs together, with the user's own rights. What does not: what is said of it
(``explanations``). What may not be read is said to be so, and does not end the command.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import click

from aictl import explanations, orders, running
from aictl.cluster import refusal, session
from aictl.exits import Exit, Failure
from aictl.kubeconfig import cluster_options
from aiinference.api.reasons import ModelKind
from aiinference.workload.names import ORDER_LABEL
from aimodels.api.model import ClusterModel, Model
from aimodels.delivery import names
from kubekit.errors import Forbidden, KubeError, NotFound
from kubekit.resources import Deployment, Pod, StatefulSet

if TYPE_CHECKING:
    from aictl.cluster import Session
    from aictl.explanations import Explanation, Named
    from aictl.kubeconfig import Target
    from aiinference.api.orders import InferenceService
    from aimodels.api.model import AnyModel
    from kubekit.resources import Resource, Workload

    R = TypeVar("R", bound=Resource)

_WORKLOADS: tuple[type[Workload], ...] = (Deployment, StatefulSet)
_DELIVERED = ((names.MODEL_ANNOTATION, Model), (names.CLUSTER_MODEL_ANNOTATION, ClusterModel))


@click.command()
@click.argument("name")
@running.json_option
@cluster_options
def why(name: str, *, target: Target, as_json: bool) -> None:
    """Say what NAME waits for: an order, a model, or a workload that uses one, whichever there is.

    Exit codes: 0 when it is ready, 1 when it waits for what may pass, 3 when something has to change first.
    """
    target, name = running.named(target, name, cluster=False, what="object")
    show = running.voice(as_json=as_json)

    async def work() -> None:
        async with session(target, show.note) as at:
            found = await explain(at, name)
        show.result(found.text(datetime.now(UTC)), found.document())
        click.get_current_context().exit(code(found))

    running.run(work())


def code(found: Explanation) -> Exit:
    """Return how the command ends."""
    if found.ready:
        return Exit.DONE
    return Exit.IMPOSSIBLE if found.passes_by_itself is False else Exit.FAILED


async def explain(at: Session, name: str) -> Explanation:
    """Return what is said of the first object of that name: order, model, cluster's model, workload."""
    order = await _order(at, name)
    if order is not None:
        model = await _ordered_model(at, order)
        return explanations.of_order(order, model, await _pods(at, name))
    kinds: tuple[type[AnyModel], ...] = (Model, ClusterModel)
    for kind in kinds:
        found = await _find(at, kind, name)
        if found is not None:
            return explanations.of_model(found)
    for workload_kind in _WORKLOADS:
        workload = await _find(at, workload_kind, name)
        if workload is not None:
            return await _workload(at, workload)
    raise Failure(
        f"There is no order, model or workload {name} in {at.namespace} that you may read",
        "",
        f"`kubectl get inferenceservices,models -n {at.namespace}` lists what there is",
        code=Exit.USAGE,
    )


async def _order(at: Session, name: str) -> InferenceService | None:
    try:
        return await orders.find_order(at, name)
    except Failure as failure:
        # Without ai-inference, or the right to read orders, the name may still be a model's.
        if failure.code in (Exit.IMPOSSIBLE, Exit.DENIED):
            return None
        raise


async def _ordered_model(at: Session, order: InferenceService) -> AnyModel | None:
    ref = order.spec.model.ref
    if ref.kind is None:
        return None
    return await _find(at, ClusterModel if ref.kind == ModelKind.CLUSTER_MODEL else Model, ref.name)


async def _workload(at: Session, workload: Workload) -> Explanation:
    annotations = workload.metadata.annotations
    named = [
        (kind, name)
        for annotation, kind in _DELIVERED
        for name in filter(None, (one.strip() for one in annotations.get(annotation, "").split(",")))
    ]
    return explanations.of_workload(
        workload.KIND.name,
        f"{at.namespace}/{workload.metadata.name}",
        annotations.get(names.BLOCKED_REASON_ANNOTATION, ""),
        annotations.get(names.BLOCKED_MESSAGE_ANNOTATION, ""),
        [await _named(at, kind, name) for kind, name in named],
    )


async def _named(at: Session, kind: type[AnyModel], name: str) -> Named:
    try:
        return explanations.Named(kind, name, await _get(at, kind, name))
    except Forbidden:
        return explanations.Named(kind, name, hidden=True)


async def _pods(at: Session, order: str) -> list[Pod] | None:
    selector = f"{ORDER_LABEL}={order}"
    try:
        return await at.answer(lambda: at.client.list(Pod, at.namespace, label_selector=selector))
    except Forbidden:
        return None
    except KubeError as error:
        raise refusal(error, "The order's Pods cannot be listed") from error


async def _find(at: Session, kind: type[R], name: str) -> R | None:
    """Return an object, None when there is none or it may not be read."""
    try:
        return await _get(at, kind, name)
    except Forbidden:
        return None


async def _get(at: Session, kind: type[R], name: str) -> R | None:
    """Return an object, None when there is none; Forbidden when it may not be read."""
    namespace = at.namespace if kind.KIND.namespaced else None
    try:
        return await at.answer(lambda: at.client.get(kind, name, namespace))
    except NotFound:
        return None
    except Forbidden:
        raise
    except KubeError as error:
        raise refusal(error, f"{kind.KIND.name} {name} cannot be read") from error
