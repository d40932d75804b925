"""``GET /api/internal/v1/models/lookup``: the facts of one model, for other modules of the cluster.

What belongs here: HTTP, audit and metrics of the lookup. What does not: who may, and what is told (``desk``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route

from aimodels.api.model import ClusterModel, Model
from aimodels.lookup import reference as references
from aimodels.lookup.desk import Desk
from aimodels.lookup.refusals import AUDIENCE
from kubekit.tokens import TokenReviews
from opskit import metrics
from webkit import audit
from webkit.problems import Problem, json_answer

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from aimodels.api.model import AnyModel
    from kubekit.manager import Manager

PATH = "/api/internal/v1/models/lookup"
ALLOWED, BROKEN = "allowed", "failed"

_LOOKUPS = metrics.counter("model_lookups", "Lookups of models by what came of them.", ["result"])


def routes(manager: Manager) -> list[Route]:
    """Return the lookup's route, and have the manager follow the models."""
    kinds: tuple[type[AnyModel], ...] = (Model, ClusterModel)
    stores = {kind: manager.informer(kind).store for kind in kinds}
    desk = Desk(manager.client, TokenReviews(manager.client, [AUDIENCE]), stores, manager.ready)

    async def lookup(request: Request) -> Response:
        return await _serve(desk, request)

    return [Route(PATH, lookup, methods=["GET"])]


async def _serve(desk: Desk, request: Request) -> Response:
    actor, target, result = audit.Actor(), "", BROKEN
    try:
        async with desk.visit():
            who = await desk.identify(_bearer(request))
            actor = audit.Actor(who.username, who.uid, tuple(who.groups))
            asked = references.read(request.query_params.multi_items())
            target = str(asked)
            answer = json_answer(await desk.answer(who, asked))
        result = ALLOWED
    except Problem as problem:
        result = problem.reason
        raise
    finally:
        _LOOKUPS.labels(result).inc()
        audit.record("model_lookup", actor, request.scope, target=target, result=result)
    return answer


def _bearer(request: Request) -> str:
    """Return the token that came with the request, or nothing."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
