"""The user's cluster: their kubeconfig, their namespace, their rights, and the API's errors in their words.

What belongs here: connecting, and turning an error of the API into a ``Failure``. What does not: commands.
"""

from __future__ import annotations

import functools
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.core.exceptions import ConfigError

from aictl.exits import Exit, Failure
from aimodels.api.model import AnyModel, ClusterModel, Model
from kubekit.client import Client
from kubekit.errors import Forbidden, KubeError, NotFound, Unauthorized, Unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


@dataclass(frozen=True)
class Target:
    """Which cluster and namespace the options of a command name."""

    kubeconfig: Path | None
    context: str | None
    namespace: str | None


@dataclass(frozen=True)
class Session:
    """An open connection to the user's cluster."""

    client: Client
    config: SingleConfig
    namespace: str


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name cluster and namespace; the command gets them as ``target``."""

    @click.option("-n", "--namespace", help="Namespace of the model; the one of the context if left out.")
    @click.option("--context", help="Context of the kubeconfig; the current one if left out.")
    @click.option(
        "--kubeconfig",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Path of the kubeconfig; KUBECONFIG or ~/.kube/config if left out.",
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any, kubeconfig: Path | None, context: str | None, namespace: str | None, **kwargs: Any
    ) -> Any:
        return command(*args, target=Target(kubeconfig, context, namespace), **kwargs)

    return wrapped


@asynccontextmanager
async def session(target: Target) -> AsyncIterator[Session]:
    """Connect as the user; nothing is asked of the cluster yet."""
    config = _config(target)
    try:
        client = Client(config)
    except (ConfigError, OSError, ValueError) as error:
        raise Failure(
            "The kubeconfig cannot be used", str(error), "Check it with `kubectl get ns`", code=Exit.USAGE
        ) from error
    async with client:
        yield Session(client, config, target.namespace or config.namespace)


def _config(target: Target) -> SingleConfig:
    try:
        found = KubeConfig.from_file(target.kubeconfig) if target.kubeconfig else KubeConfig.from_env()
        config = found.get(context_name=target.context)
    except (ConfigError, OSError, KeyError, ValueError) as error:
        config, why, detail = None, str(error), repr(error)
    else:
        why, detail = "The kubeconfig names no context", ""
    if config is None:
        raise Failure(
            "There is no cluster to talk to",
            why,
            "Name one with --kubeconfig, --context or KUBECONFIG",
            code=Exit.USAGE,
            detail=detail,
        )
    return config


def kind_of(*, cluster: bool) -> type[AnyModel]:
    """Return ClusterModel or Model."""
    return ClusterModel if cluster else Model


def shown(kind: type[AnyModel], name: str, namespace: str) -> str:
    """Name a model in a message."""
    return f"Model {namespace}/{name}" if kind.KIND.namespaced else f"ClusterModel {name}"


def flags(kind: type[AnyModel], namespace: str) -> str:
    """Return the options that name the same model in another command line."""
    return f"-n {namespace}" if kind.KIND.namespaced else "--cluster"


def refusal(error: KubeError, what: str) -> Failure:
    """Turn an error of the API into words for the user."""
    if isinstance(error, Forbidden):
        step = (
            "Ask the administrator of the namespace for that right; `kubectl auth can-i --list` shows yours"
        )
        return Failure(what, error.message, step, code=Exit.DENIED, detail=str(error))
    if isinstance(error, Unauthorized):
        step = "Log in again, or check the user of the kubeconfig"
        return Failure(what, "The cluster does not accept the credentials", step, code=Exit.DENIED)
    if isinstance(error, Unreachable):
        step = "Check the network and the address in the kubeconfig: `kubectl get ns` should answer"
        return Failure(what, "The Kubernetes API does not answer", step, detail=str(error))
    if isinstance(error, NotFound):
        step = "Is ai-models installed in this cluster? `kubectl get crd models.ai.deckhouse.io` tells"
        why = "This cluster does not know such objects"
        return Failure(what, why, step, code=Exit.IMPOSSIBLE, detail=str(error))
    return Failure(what, str(error), "Try again; with -v there is more", detail=repr(error))


async def get_model(at: Session, kind: type[AnyModel], name: str) -> AnyModel:
    """Return the model, or fail with what a user can do about it."""
    what = f"{shown(kind, name, at.namespace)} cannot be read"
    try:
        return await at.client.get(kind, name, at.namespace if kind.KIND.namespaced else None)
    except NotFound as error:
        if f'"{name}" not found' not in error.message:
            raise refusal(error, what) from error
        raise Failure(
            f"There is no {shown(kind, name, at.namespace)}",
            "",
            "`aictl models -A` lists those that there are",
            code=Exit.USAGE,
        ) from error
    except KubeError as error:
        raise refusal(error, what) from error
