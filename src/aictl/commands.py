"""The commands about models in a cluster: upload, wait, retry, models.

What belongs here: options, order, words of success. What does not: the work itself.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aictl import follow, uploading, words
from aictl.cluster import Target, cluster_options, flags, get_model, kind_of, refusal, session, shown
from aictl.exits import Exit, Failure
from aictl.prefixes import Prefixes
from aictl.sending import Progress
from aictl.show import Show, table
from aimodels.api.model import MODULE_NAMESPACE, RETRY_ANNOTATION, ClusterModel, Model
from aimodels.api.reasons import Phase
from kubekit.errors import KubeError
from modelkit import names, sizes
from modelkit.errors import NotAModel
from modelkit.formats import detect

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from aictl.cluster import Session
    from aimodels.api.model import AnyModel

_cluster = click.option("--cluster", is_flag=True, help="A ClusterModel, for every namespace.")
_INTERRUPTED = 130
#: phases of which the command speaks itself
_UNSAID = {"", Phase.WAIT_FOR_UPLOAD, Phase.READY}
_json = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
_timeout = click.option(
    "--timeout",
    default=3600.0,
    show_default=True,
    help="Seconds to wait for Ready before giving up (exit 5).",
)


def _show(*, as_json: bool) -> Show:
    root = click.get_current_context().find_root()
    return Show(quiet=bool(root.params.get("quiet")), as_json=as_json)


def _run(work: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        click.echo("aictl: interrupted; the same command goes on where this one stopped", err=True)
        click.get_current_context().exit(_INTERRUPTED)


@click.command()
@click.argument("name")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path))
@_cluster
@click.option("--create", "new", is_flag=True, help="Create the model if it is not there.")
@_timeout
@_json
@cluster_options
def upload(
    name: str, file: Path, *, target: Target, cluster: bool, new: bool, timeout: float, as_json: bool
) -> None:
    """Upload FILE as the model NAME and wait until it is Ready.

    FILE is a .gguf, or a .tar with GGUF files or with config.json and .safetensors files. An interrupted
    upload goes on where it stopped: run the same command again.
    """
    try:
        names.model_name(name)
        filename = names.file_name(file.name)
        with file.open("rb") as opened:
            detect.serve(filename, opened.read(detect.HEAD))
    except (ValueError, NotAModel) as error:
        raise Failure("Nothing was uploaded", str(error), code=Exit.USAGE) from error
    show = _show(as_json=as_json)
    _run(_upload(show, target, kind_of(cluster=cluster), name, file, new=new, within=timeout))


async def _upload(
    show: Show, target: Target, kind: type[AnyModel], name: str, file: Path, *, new: bool, within: float
) -> None:
    prefixes = Prefixes(file)
    async with session(target) as at:
        if new and await uploading.create(at, kind, name):
            show.note(f"{shown(kind, name, at.namespace)} created")
        model = await uploading.awaited(at, kind, name)
        started = time.monotonic()
        document: dict[str, Any] = {}
        if uploading.has_bytes(model):
            await _check_same(model, kind, at.namespace, prefixes)
            show.note("its bytes are there already, nothing is uploaded")
        else:
            namespace = at.namespace if kind.KIND.namespaced else MODULE_NAMESPACE
            to = await uploading.link(at, kind, model, namespace)
            with show.bar(file.name, prefixes.size) as moved:
                progress = Progress(moved=moved, noted=show.note)
                receipt = await uploading.send(at, to, prefixes, filename=file.name, progress=progress)
            document = {"fileDigest": receipt.digest, "uploadSeconds": round(time.monotonic() - started, 3)}
            show.note(f"uploaded  {receipt.digest}  in {words.seconds(time.monotonic() - started)}")
        model = await _ready(show, at, kind, name, within)
        took = time.monotonic() - started
        show.result(
            f"Ready in {words.seconds(took)}.  Use it:  {_use(kind, name, at.namespace)}",
            words.document(model) | document | {"readySeconds": round(took, 3)},
        )


async def _check_same(model: AnyModel, kind: type[AnyModel], namespace: str, prefixes: Prefixes) -> None:
    """Do not let somebody believe that another file was taken."""
    source = model.status.source if model.status else None
    received = source.resolved_revision if source else None
    if received is None or received == await prefixes.digest(prefixes.size):
        return
    raise Failure(
        f"{shown(kind, model.metadata.name, namespace)} was made of another file",
        f"its bytes have the digest {received}, and what is received does not change",
        "Choose another name, or delete the model first",
        code=Exit.IMPOSSIBLE,
    )


def _use(kind: type[AnyModel], name: str, namespace: str) -> str:
    if kind.KIND.namespaced:
        return f"kubectl -n {namespace} annotate deploy/app ai.deckhouse.io/model={name}"
    return f"kubectl annotate deploy/app ai.deckhouse.io/clustermodel={name}"


async def _ready(show: Show, at: Session, kind: type[AnyModel], name: str, within: float) -> AnyModel:
    model = await follow.until(at, kind, name, follow.is_ready, within=within, seen=_phases(show))
    if facts := words.facts(model.status.resolved if model.status else None):
        artifact = model.status.artifact if model.status else None
        size = f", {sizes.text(artifact.size_bytes)}" if artifact else ""
        show.note(f"{facts}{size}")
    return model


def _phases(show: Show) -> Callable[[AnyModel], None]:
    """Return a call that says every new phase and reason once, how far it is, and what is in its way."""
    last = ("", "")

    def seen(model: AnyModel) -> None:
        nonlocal last
        phase, reason = words.phase(model), words.reason(model)
        if phase in _UNSAID or (phase, reason) == last:
            return
        last = phase, reason
        show.note("  ".join(part for part in (phase, reason, words.progress(model)) if part))
        if words.passes_by_itself(reason):
            show.note(words.message(model))

    return seen


@click.command()
@click.argument("name")
@_cluster
@_timeout
@_json
@cluster_options
def wait(name: str, *, target: Target, cluster: bool, timeout: float, as_json: bool) -> None:
    """Wait until the model NAME is Ready; exit 3 when it cannot become so, 5 when the time is over."""

    async def work() -> None:
        show, kind = _show(as_json=as_json), kind_of(cluster=cluster)
        async with session(target) as at:
            model = await _ready(show, at, kind, name, timeout)
            show.result(f"{shown(kind, name, at.namespace)} is Ready", words.document(model))

    _run(work())


@click.command()
@click.argument("name")
@_cluster
@_json
@cluster_options
def retry(name: str, *, target: Target, cluster: bool, as_json: bool) -> None:
    """Let a failed model NAME try again; bytes that were checked are kept, a lapsed upload is opened anew."""

    async def work() -> None:
        show, kind = _show(as_json=as_json), kind_of(cluster=cluster)
        async with session(target) as at:
            model = await get_model(at, kind, name)
            stamp = datetime.now(UTC).isoformat(timespec="seconds")
            title = shown(kind, name, at.namespace)
            body = {"metadata": {"annotations": {RETRY_ANNOTATION: stamp}}}
            try:
                await at.client.patch(kind, name, body, namespace=model.metadata.namespace or None)
            except KubeError as error:
                raise refusal(error, f"{title} cannot be asked to try again") from error
            wait_for = f"aictl wait {name} {flags(kind, at.namespace)}"
            show.result(
                f"{title} tries again.  Follow it:  {wait_for}", words.document(model) | {"retry": stamp}
            )

    _run(work())


@click.command()
@click.option("-A", "--all-namespaces", is_flag=True, help="Models of every namespace.")
@click.option("--cluster", is_flag=True, help="ClusterModels only.")
@_json
@cluster_options
def models(*, target: Target, all_namespaces: bool, cluster: bool, as_json: bool) -> None:
    """List the models that workloads of a namespace can use: its own, and those of the cluster."""

    async def work() -> None:
        show = _show(as_json=as_json)
        async with session(target) as at:
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

    _run(work())


async def _listed(at: Session, kind: type[Model | ClusterModel], namespace: str | None) -> list[AnyModel]:
    try:
        return list(await at.client.list(kind, namespace))
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
