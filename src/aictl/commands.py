"""The commands about models in a cluster that need no bytes: wait, retry, models.

What belongs here: options, order, words of success. What does not: the work itself.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from aictl import orders, running, waiting, words
from aictl.cluster import flags, get_model, kind_of, refusal, session, shown
from aictl.exits import Exit, Failure
from aictl.kubeconfig import cluster_options
from aictl.show import table
from aimodels.api.model import RETRY_ANNOTATION, ClusterModel, Model
from kubekit.errors import KubeError
from modelkit import sizes

if TYPE_CHECKING:
    from aictl.cluster import Session
    from aictl.kubeconfig import Target
    from aimodels.api.model import AnyModel


@click.command()
@click.argument("name")
@running.cluster_option
@click.option("--order", "is_order", is_flag=True, help="An InferenceService, whatever models there are.")
@running.timeout_option
@running.json_option
@cluster_options
def wait(name: str, *, target: Target, cluster: bool, is_order: bool, timeout: float, as_json: bool) -> None:
    """Wait until the model NAME, or the order if there is no such model, is Ready.

    Exit codes: 3 when it cannot become so, 5 when the time is over.
    """
    target, name = running.named(target, name, cluster=cluster)
    show, kind = running.voice(as_json=as_json), kind_of(cluster=cluster)

    async def work() -> None:
        async with session(target, show.note) as at:
            try:
                model = None if is_order else await running.ready(show, at, kind, name, timeout)
            except Failure as failure:
                if failure.code is not Exit.USAGE or cluster or not await _is_order(at, name):
                    raise
                model = None
            if model is None:
                found = await waiting.until_ready(show, at, name, timeout)
                show.result(f"{orders.shown(name, at.namespace)} is Ready", waiting.document(found))
                return
            show.result(f"{shown(kind, name, at.namespace)} is Ready", words.document(model))

    running.run(work(), resumes=True)


async def _is_order(at: Session, name: str) -> bool:
    """Tell whether a name that is no model's is an order's, in a cluster that may know no orders."""
    try:
        return await orders.find_order(at, name) is not None
    except Failure:
        return False


@click.command()
@click.argument("name")
@running.cluster_option
@running.json_option
@cluster_options
def retry(name: str, *, target: Target, cluster: bool, as_json: bool) -> None:
    """Let a failed model NAME try again; bytes that were checked are kept, a lapsed upload is opened anew."""
    target, name = running.named(target, name, cluster=cluster)
    show, kind = running.voice(as_json=as_json), kind_of(cluster=cluster)

    async def work() -> None:
        async with session(target, show.note) as at:
            model = await get_model(at, kind, name)
            stamp = datetime.now(UTC).isoformat(timespec="seconds")
            title = shown(kind, name, at.namespace)
            body = {"metadata": {"annotations": {RETRY_ANNOTATION: stamp}}}
            try:
                namespace = model.metadata.namespace or None
                await at.answer(lambda: at.client.patch(kind, name, body, namespace=namespace))
            except KubeError as error:
                raise refusal(error, f"{title} cannot be asked to try again") from error
            wait_for = f"aictl wait {name} {flags(kind, at.namespace)}"
            show.result(
                f"{title} tries again.  Follow it:  {wait_for}", words.document(model) | {"retry": stamp}
            )

    running.run(work())


@click.command()
@click.option("-A", "--all-namespaces", is_flag=True, help="Models of every namespace.")
@click.option("--cluster", is_flag=True, help="ClusterModels only.")
@running.json_option
@cluster_options
def models(*, target: Target, all_namespaces: bool, cluster: bool, as_json: bool) -> None:
    """List the models that workloads of a namespace can use: its own, and those of the cluster."""
    show = running.voice(as_json=as_json)

    async def work() -> None:
        async with session(target, show.note) as at:
            found: list[AnyModel] = []
            if not cluster:
                found += await _listed(at, Model, None if all_namespaces else at.namespace)
            try:
                found += await _listed(at, ClusterModel, None)
            except Failure as failure:
                if cluster or failure.code is not Exit.DENIED:
                    raise
                show.note("ClusterModels are not shown, listing them is not allowed to you")
        found.sort(
            key=lambda model: (not model.KIND.namespaced, model.metadata.namespace, model.metadata.name)
        )
        show.result(_rows(found, at.namespace), [words.document(model) for model in found])

    running.run(work())


async def _listed(at: Session, kind: type[Model | ClusterModel], namespace: str | None) -> list[AnyModel]:
    try:
        return list(await at.answer(lambda: at.client.list(kind, namespace)))
    except KubeError as error:
        raise refusal(error, f"{kind.KIND.name}s cannot be listed") from error


def _rows(found: list[AnyModel], namespace: str) -> str:
    if not found:
        first = f"aictl upload NAME FILE --create -n {namespace}"
        return f"There are no models in {namespace}.  A first one:  {first}"
    now = datetime.now(UTC)
    header = ("NAMESPACE", "NAME", "PHASE", "REASON", "PROGRESS", "FORMAT", "SIZE", "AGE")
    return table(header, [_row(model, now) for model in found])


def _row(model: AnyModel, now: datetime) -> tuple[str, ...]:
    status = model.status
    artifact = status.artifact if status else None
    resolved = status.resolved if status else None
    return (
        model.metadata.namespace if model.KIND.namespaced else "(cluster)",
        model.metadata.name,
        words.phase(model),
        words.reason(model),
        (status.progress if status else "") or "",
        (resolved.format if resolved else "") or "",
        sizes.text(artifact.size_bytes) if artifact else "",
        words.age(model.metadata.creation_timestamp, now),
    )
