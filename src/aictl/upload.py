"""``aictl upload``: options, order, words of success.

What belongs here: the command. What does not: the steps (``uploading``), the wire (``sending``).
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aictl import running, uploading, words
from aictl.cluster import kind_of, session, shown
from aictl.exits import Exit, Failure
from aictl.kubeconfig import cluster_options
from aictl.prefixes import Prefixes
from aictl.sending import Progress
from aimodels.api.model import MODULE_NAMESPACE
from modelkit import inspection, names
from modelkit.errors import NotAModel
from modelkit.formats import detect
from modelkit.reading import LocalFile

if TYPE_CHECKING:
    from aictl.kubeconfig import Target
    from aictl.show import Show
    from aimodels.api.model import AnyModel


@click.command()
@click.argument("name")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path))
@running.cluster_option
@click.option("--create", "new", is_flag=True, help="Create the model if it is not there.")
@running.timeout_option
@running.json_option
@cluster_options
def upload(
    name: str, file: Path, *, target: Target, cluster: bool, new: bool, timeout: float, as_json: bool
) -> None:
    """Upload FILE as the model NAME and wait until it is Ready.

    FILE is a .gguf, or a .tar with GGUF files or with config.json and .safetensors files. An interrupted
    upload goes on where it stopped: run the same command again.
    """
    target, name = running.named(target, name, cluster=cluster)
    _check(file)
    show = running.voice(as_json=as_json)
    work = _upload(show, target, kind_of(cluster=cluster), name, file, new=new, within=timeout)
    running.run(work, resumes=True)


def _check(file: Path) -> None:
    """Refuse what could not be published, as ``inspect`` does, before the cluster is asked."""
    try:
        filename = names.file_name(file.name)
        with file.open("rb") as opened:
            container = detect.serve(filename, opened.read(detect.HEAD))
        if container is detect.Container.GGUF:
            inspection.inspect_gguf({filename: partial(LocalFile, str(file))})
        else:
            inspection.inspect_archive(LocalFile(str(file)), filename)
    except (names.BadName, NotAModel) as error:
        raise Failure("Nothing was uploaded", str(error), code=Exit.USAGE) from error
    except OSError as error:
        raise Failure(
            "Nothing was uploaded", f"{file} cannot be read: {error.strerror}", code=Exit.USAGE
        ) from error


async def _upload(
    show: Show, target: Target, kind: type[AnyModel], name: str, file: Path, *, new: bool, within: float
) -> None:
    prefixes = Prefixes(file)
    async with session(target, show.note) as at:
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
        model = await running.ready(show, at, kind, name, within)
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
