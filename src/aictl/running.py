"""What the commands about a cluster have in common: options, names, how they run, wait and end.

What belongs here: what more than one command needs. What does not: any one of them.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

import click

from aictl import follow, words
from aictl.exits import Exit, Failure
from aictl.show import Show
from aimodels.api.reasons import Phase
from modelkit import names, sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from aictl.cluster import Session
    from aictl.kubeconfig import Target
    from aimodels.api.model import AnyModel

cluster_option = click.option("--cluster", is_flag=True, help="A ClusterModel, for every namespace.")
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for Ready before giving up (exit 5).",
)
#: phases of which the commands speak themselves
_UNSAID = {"", Phase.WAIT_FOR_UPLOAD, Phase.READY}


def voice(*, as_json: bool) -> Show:
    """Return the voice that the global options ask for."""
    root = click.get_current_context().find_root()
    return Show(quiet=bool(root.params.get("quiet")), as_json=as_json)


def run(work: Coroutine[Any, Any, None], *, resumes: bool = False) -> None:
    """Do the work; Ctrl-C ends it, with a word on how to go on where the command ``resumes``."""
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        goes_on = "; the same command goes on where this one stopped" if resumes else ""
        click.echo(f"aictl: interrupted{goes_on}", err=True)
        click.get_current_context().exit(Exit.INTERRUPTED)


def named(target: Target, name: str, *, cluster: bool, what: str = "model") -> tuple[Target, str]:
    """Return where what is called ``name`` or ``namespace/name`` is, and its own name; Failure if nowhere."""
    namespace, slash, own = name.rpartition("/")
    try:
        names.model_name(own)
        if slash:
            names.namespace_name(namespace)
    except names.BadName as error:
        raise Failure(f"There can be no such {what}", str(error), code=Exit.USAGE) from error
    if not slash:
        return target, own
    if cluster or target.namespace not in (None, namespace):
        raise Failure(
            f"{name} is of the namespace {namespace}",
            "The options name another place",
            "Leave out either",
            code=Exit.USAGE,
        )
    return dataclasses.replace(target, namespace=namespace), own


async def ready(show: Show, at: Session, kind: type[AnyModel], name: str, within: float) -> AnyModel:
    """Wait until the model is Ready, saying what happens meanwhile and what it is."""
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
