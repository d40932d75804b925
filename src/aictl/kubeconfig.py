"""Which cluster, and as whom: the options of a command and the user's kubeconfig.

What belongs here: finding and reading it. What does not: talking to the cluster (``cluster``).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import NameValue, User
from lightkube.core.exceptions import ConfigError

from aictl.exits import Exit, Failure

if TYPE_CHECKING:
    from collections.abc import Callable

S = TypeVar("S", bound=msgspec.Struct)

_PLUGIN_API = "client.authentication.k8s.io/"
#: what a plugin of the stable version is told; who is not asked cannot be answered
_PLUGIN_ASKED = {"kind": "ExecCredential", "apiVersion": f"{_PLUGIN_API}v1", "spec": {"interactive": False}}


@dataclass(frozen=True)
class Target:
    """Which cluster and namespace the options of a command name."""

    kubeconfig: Path | None
    context: str | None
    namespace: str | None


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name cluster and namespace; the command gets them as ``target``."""

    @click.option("-n", "--namespace", help="Namespace of the model; the one of the context if left out.")
    @click.option("--context", help="Context of the kubeconfig; the current one if left out.")
    @click.option(
        "--kubeconfig",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Path of the kubeconfig; KUBECONFIG or ~/.kube/config if left out.",
    )
    @wraps(command)
    def wrapped(
        *args: Any, kubeconfig: Path | None, context: str | None, namespace: str | None, **kwargs: Any
    ) -> Any:
        return command(*args, target=Target(kubeconfig, context, namespace), **kwargs)

    return wrapped


def load(target: Target) -> SingleConfig:
    """Return what the kubeconfig says of the target; Failure when it says nothing usable."""
    try:
        found = KubeConfig.from_file(target.kubeconfig) if target.kubeconfig else _from_environment()
        config = found.get(context_name=target.context)
    except (ConfigError, OSError) as error:
        raise _no_cluster(str(error), repr(error)) from error
    except Exception as error:  # its parser and its reader raise whatever they meet
        why = f"{target.kubeconfig or 'The kubeconfig'} is not a kubeconfig that can be read"
        raise _no_cluster(why, repr(error)) from error
    if config is None:
        raise _no_cluster("The kubeconfig names no context", "")
    return config._replace(user=_served(config.user or User()))


def _from_environment() -> KubeConfig:
    """Return what kubectl would use: the files in KUBECONFIG, else the Pod's account or ~/.kube/config."""
    named = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if not named:
        try:
            return KubeConfig.from_service_account()
        except ConfigError:
            return KubeConfig.from_file("~/.kube/config")
    there = [KubeConfig.from_file(part) for part in named if Path(part).expanduser().is_file()]
    if not there:
        raise ConfigError(f"Configuration file {' or '.join(named)} not found")
    return _merged(there) if len(there) > 1 else there[0]


def _merged(files: list[KubeConfig]) -> KubeConfig:
    """Return several files as one; what the first of them says holds."""
    merged = KubeConfig(clusters={}, contexts={}, users={})
    for file in files:
        absolute = partial(_absolute, file)
        merged.clusters = {
            name: absolute(one, "certificate_auth") for name, one in file.clusters.items()
        } | merged.clusters
        merged.users = {
            name: absolute(one, "token_file", "client_cert", "client_key") for name, one in file.users.items()
        } | merged.users
        merged.contexts = file.contexts | merged.contexts
        merged.current_context = merged.current_context or file.current_context
    return merged


def _absolute(file: KubeConfig, part: S, *fields: str) -> S:
    """Let the paths of a part be found from anywhere: they are meant from the file's own folder."""
    folder = file.fname.resolve().parent if file.fname else Path()
    given = {field: value for field in fields if (value := getattr(part, field))}
    return msgspec.structs.replace(part, **{field: str(folder / value) for field, value in given.items()})


def _no_cluster(why: str, detail: str) -> Failure:
    step = "Name one with --kubeconfig, --context or KUBECONFIG"
    return Failure("There is no cluster to talk to", why, step, code=Exit.USAGE, detail=detail)


def _served(user: User) -> User:
    """Let a credential plugin of the stable version be run as those of the version before are.

    Its answer has the same form; only it wants to be told in its environment which one is expected.
    """
    if user.exec is None or user.exec.apiVersion != f"{_PLUGIN_API}v1":
        return user
    asked = NameValue("KUBERNETES_EXEC_INFO", msgspec.json.encode(_PLUGIN_ASKED).decode())
    plugin = msgspec.structs.replace(
        user.exec, apiVersion=f"{_PLUGIN_API}v1beta1", env=[*(user.exec.env or []), asked]
    )
    return msgspec.structs.replace(user, exec=plugin)
