"""Following a model until it is Ready or cannot become so.

Only ``get`` on the one model is needed: who may read it may wait for it. So it is asked for, not watched, and
an API server that is away meanwhile is waited for as well.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from aictl import words
from aictl.cluster import flags, get_model, shown
from aictl.exits import Exit, Failure
from aimodels.api.reasons import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from aictl.cluster import Session
    from aimodels.api.model import AnyModel

POLL_SECONDS = 0.3


async def until(
    at: Session,
    kind: type[AnyModel],
    name: str,
    done: Callable[[AnyModel], bool],
    *,
    within: float,
    seen: Callable[[AnyModel], None] = lambda _model: None,
) -> AnyModel:
    """Return the model as soon as it is what is waited for.

    Fails with ``IMPOSSIBLE`` when it has failed or is being deleted, ``TIMED_OUT`` when the time is over.
    """
    deadline = time.monotonic() + within
    while True:
        model = await get_model(at, kind, name, within=max(0.0, deadline - time.monotonic()))
        seen(model)
        if done(model):
            return model
        _give_up(model, kind, at.namespace)
        if time.monotonic() >= deadline:
            phase = words.phase(model) or "not looked at by a controller"
            raise Failure(
                f"{shown(kind, name, at.namespace)} is {phase} after {within:.0f} s",
                words.message(model),
                f"Go on waiting with `aictl wait {name} {flags(kind, at.namespace)}`",
                code=Exit.TIMED_OUT,
            )
        await asyncio.sleep(POLL_SECONDS)


def is_ready(model: AnyModel) -> bool:
    """Tell whether a model is Ready, for the source that it has now."""
    ready = words.condition(model, "Ready")
    current = model.status is not None and model.status.observed_generation == model.metadata.generation
    return current and ready is not None and ready.status == "True"


def has_failed(model: AnyModel) -> bool:
    """Tell whether the controller gave up on the model as it is now."""
    status = model.status
    current = status is not None and status.observed_generation == model.metadata.generation
    return current and words.phase(model) == Phase.FAILED


def _give_up(model: AnyModel, kind: type[AnyModel], namespace: str) -> None:
    name = model.metadata.name
    title = shown(kind, name, namespace)
    if model.metadata.deleting:
        raise Failure(
            f"{title} is being deleted", "", "Create it again when it is gone", code=Exit.IMPOSSIBLE
        )
    if has_failed(model):
        raise Failure(
            f"{title} has failed ({words.reason(model)})",
            words.message(model),
            f"When the cause is gone: `aictl retry {name} {flags(kind, namespace)}`",
            code=Exit.IMPOSSIBLE,
        )
