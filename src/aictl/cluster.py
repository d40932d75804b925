"""The user's cluster: their namespace, their rights, and the API's errors in their words.

What belongs here: connecting, asking again, and turning an error of the API into a ``Failure``. What does
not: finding the cluster (``kubeconfig``), commands.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import httpx2
from lightkube.core.exceptions import ConfigError

from aictl import kubeconfig
from aictl.exits import Exit, Failure
from aimodels.api.model import AnyModel, ClusterModel, Model
from kubekit.client import Client
from kubekit.errors import (
    ApiError,
    Forbidden,
    Gone,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from modelkit import names
from opskit.retry import Backoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from lightkube.config.kubeconfig import SingleConfig

    from aictl.kubeconfig import Target

T = TypeVar("T")

#: An API that has answered once may be silent for so many seconds: it is being restarted.
RESTART_SECONDS = 60.0
#: One that has just started answers, and knows neither tokens nor roles yet.
_START_SECONDS = 30.0
#: One that was never reached may have lost an answer.
_FIRST_SECONDS = 5.0
#: what the API says of an object in a namespace that is not there
_NO_NAMESPACE = re.compile(r'namespaces? "([^"]+)" not found')
_BACKOFF = Backoff(first=0.3, most=2.0)


class Session:
    """An open connection to the user's cluster; ``noted`` is told when the API has to be asked again."""

    def __init__(
        self, client: Client, config: SingleConfig, namespace: str, noted: Callable[[str], None]
    ) -> None:
        self.client = client
        self.config = config
        self.namespace = namespace
        self.reached = False
        self._noted = noted
        self._silent_at = float("-inf")

    async def answer(self, call: Callable[[], Awaitable[T]], within: float = RESTART_SECONDS) -> T:
        """Return what the API answers to a repeatable call; an API that is away is waited for."""
        began, failures = time.monotonic(), 0
        while True:
            try:
                found = await call()
            except KubeError as error:
                failures += 1
                delay = max(_BACKOFF.delay(failures), error.retry_after or 0.0)
                now = time.monotonic()
                if now + delay > min(began + within, self._bear_until(error, began)):
                    raise
                if failures == 1:
                    self._noted(f"{_why(error)}, asking again")
                await asyncio.sleep(delay)
            else:
                self.reached = True
                return found

    def _bear_until(self, error: KubeError, began: float) -> float:
        """Return the time at which an error that repeats itself is the answer."""
        if may_pass(error):
            self._silent_at = time.monotonic()
            if self.reached:
                return float("inf")
            return began + (0.0 if _never_connected(error) else _FIRST_SECONDS)
        return self._silent_at + (_START_SECONDS if isinstance(error, Unauthorized | Forbidden) else 0.0)


@asynccontextmanager
async def session(target: Target, noted: Callable[[str], None]) -> AsyncIterator[Session]:
    """Connect as the user; nothing is asked of the cluster yet."""
    config = kubeconfig.load(target)
    namespace = target.namespace or config.namespace
    try:
        names.namespace_name(namespace)
    except names.BadName as error:
        raise Failure("There can be no such namespace", str(error), code=Exit.USAGE) from error
    try:
        client = Client(config)
    except (ConfigError, OSError, ValueError) as error:
        raise Failure(
            "The kubeconfig cannot be used", str(error), "Check it with `kubectl get ns`", code=Exit.USAGE
        ) from error
    async with client:
        yield Session(client, config, namespace, noted)


def kind_of(*, cluster: bool) -> type[AnyModel]:
    """Return ClusterModel or Model."""
    return ClusterModel if cluster else Model


def shown(kind: type[AnyModel], name: str, namespace: str) -> str:
    """Name a model in a message."""
    return f"Model {namespace}/{name}" if kind.KIND.namespaced else f"ClusterModel {name}"


def flags(kind: type[AnyModel], namespace: str) -> str:
    """Return the options that name the same model in another command line."""
    return f"-n {namespace}" if kind.KIND.namespaced else "--cluster"


def may_pass(error: KubeError) -> bool:
    """Tell whether the API is away, starting or overloaded, rather than of another opinion."""
    if isinstance(error, ServerError):
        return error.code != 0  # without a code it is an answer that cannot be read
    return isinstance(error, Unreachable | TooManyRequests | Gone)


def _never_connected(error: KubeError) -> bool:
    connecting = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol)
    return isinstance(error.__cause__, connecting) or _has_no_credentials(error)


def _has_no_credentials(error: KubeError) -> bool:
    """Tell whether it failed before the API was asked: at the program that gives credentials."""
    return isinstance(error.__cause__, ConfigError | OSError)


def _why(error: KubeError) -> str:
    if isinstance(error, Unreachable):
        said = (str(error.__cause__) or type(error.__cause__).__name__).strip().partition("\n")[0]
        if _has_no_credentials(error):
            return f"The credentials of the kubeconfig cannot be had ({said})"
        return f"The Kubernetes API does not answer ({said})"
    if isinstance(error, Unauthorized):
        return "The cluster does not accept the credentials"
    return error.message if isinstance(error, ApiError) and error.message else str(error)


def refusal(error: KubeError, what: str, *, silence: Exit = Exit.FAILED) -> Failure:
    """Turn an error of the API into words for the user; ``silence`` is the code when it does not answer."""
    why, detail, code = _why(error), repr(error), silence if may_pass(error) else Exit.FAILED
    if isinstance(error, Forbidden):
        step = (
            "Ask the administrator of the namespace for that right; `kubectl auth can-i --list` shows yours"
        )
        return Failure(what, why, step, code=Exit.DENIED, detail=detail)
    if isinstance(error, Unauthorized):
        step = "Log in again, or check the user of the kubeconfig"
        return Failure(what, why, step, code=Exit.DENIED, detail=detail)
    if isinstance(error, Unreachable):
        part = "user of" if _has_no_credentials(error) else "network and the address in"
        step = f"Check the {part} the kubeconfig: `kubectl get ns` should answer"
        return Failure(what, why, step, code=code, detail=detail)
    if isinstance(error, NotFound):
        if (nowhere := _NO_NAMESPACE.fullmatch(error.message)) is not None:
            step = "Name another one with -n, or have it created"
            return Failure(what, f"There is no namespace {nowhere[1]}", step, code=Exit.USAGE, detail=detail)
        step = "Is ai-models installed in this cluster? `kubectl get crd models.ai.deckhouse.io` tells"
        why = "This cluster does not know such objects"
        return Failure(what, why, step, code=Exit.IMPOSSIBLE, detail=detail)
    return Failure(what, why, "Try again; with -v there is more", code=code, detail=detail)


async def get_model(at: Session, kind: type[AnyModel], name: str, *, within: float | None = None) -> AnyModel:
    """Return the model, or fail with what a user can do about it.

    With ``within`` the API may be silent for so many seconds, and then the time is over.
    """
    what = f"{shown(kind, name, at.namespace)} cannot be read"
    namespace = at.namespace if kind.KIND.namespaced else None
    patience = RESTART_SECONDS if within is None else within
    try:
        return await at.answer(lambda: at.client.get(kind, name, namespace), patience)
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
        is_time_over = within is not None and at.reached
        raise refusal(error, what, silence=Exit.TIMED_OUT if is_time_over else Exit.FAILED) from error
