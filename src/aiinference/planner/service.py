"""``POST /api/v1/launch-plan``: the plan over HTTP, for the controller alone.

What belongs here: who may ask, bounds, and which answer has which status. What does not: the plan (``plan``).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import msgspec
from starlette.routing import Route

from aiinference.planner.contract import PATH, LaunchPlan, LaunchRequest
from aiinference.planner.plan import plan
from kubekit.errors import KubeError
from kubekit.tokens import Overloaded
from opskit import logging, metrics
from webkit.limits import read_body
from webkit.problems import Problem, json_answer

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.requests import Request
    from starlette.responses import Response

    from aiinference.planner.contract import Answer
    from aiinference.planner.inventory import Inventory
    from aiinference.planner.plan import Recipes
    from kubekit.reviews import Identity

BODY_BYTES = 1 << 20
BODY_SECONDS = 5.0
#: shorter than the controller's patience, so that it gets a reason
REVIEW_SECONDS = 5.0

_LOG = logging.logger(__name__)
_PLANS = metrics.counter("launch_plans", "Launch plans asked for by what came of them.", ["result"])
_AGAIN = {"retry-after": "5"}


class ProblemReason(StrEnum):
    """The closed set of what the service refuses by, before or instead of planning."""

    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    BAD_REQUEST = "BadRequest"
    BODY_TOO_LARGE = "BodyTooLarge"
    BODY_TIMEOUT = "BodyTimeout"
    INVENTORY_UNAVAILABLE = "InventoryUnavailable"
    API_SERVER_UNAVAILABLE = "APIServerUnavailable"


class Source(Protocol):
    """Where the inventory is read."""

    async def inventory(self) -> Inventory:
        """Return what the cluster has; ``KubeError`` when it cannot be read."""
        ...


class Reviews(Protocol):
    """Who tells whose a token is."""

    async def identify(self, token: str) -> Identity | None:
        """Return its owner, None when it is not valid; ``KubeError`` or ``Overloaded`` without an answer."""
        ...


@dataclass(frozen=True, slots=True)
class Planner:
    """What the service answers with."""

    recipes: Recipes
    source: Source
    reviews: Reviews
    #: user names of those who may ask
    callers: Collection[str]
    audience: str

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        try:
            await self._admit(request)
            found = await self._plan(_decoded(await read_body(request, BODY_BYTES, BODY_SECONDS)))
        except Problem as problem:
            _PLANS.labels(problem.reason).inc()
            raise
        _PLANS.labels("Planned" if isinstance(found, LaunchPlan) else found.reason).inc()
        return json_answer(found)

    async def _admit(self, request: Request) -> None:
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                who = await self.reviews.identify(_bearer(request))
        except (KubeError, Overloaded, TimeoutError) as error:
            raise _unavailable(
                ProblemReason.API_SERVER_UNAVAILABLE, "the token cannot be reviewed"
            ) from error
        if who is None:
            raise Problem(
                401,
                ProblemReason.UNAUTHORIZED,
                "there is no valid token of the cluster in the request",
                f"send one for the audience {self.audience} as Bearer",
                headers={"www-authenticate": f'Bearer realm="{self.audience}"'},
            )
        if who.username not in self.callers:
            raise Problem(
                403,
                ProblemReason.FORBIDDEN,
                f"{who.username} may not ask for plans",
                "order an InferenceService; its controller asks",
            )

    async def _plan(self, request: LaunchRequest) -> Answer:
        try:
            inventory = await self.source.inventory()
        except KubeError as error:
            raise _unavailable(ProblemReason.INVENTORY_UNAVAILABLE, "the inventory cannot be read") from error
        found = plan(request, self.recipes, inventory)
        what = found.digest if isinstance(found, LaunchPlan) else f"{found.reason}: {found.message}"
        _LOG.info("planned", model=request.model.name, strategy=request.launch_strategy, result=what)
        return found


def routes(planner: Planner) -> list[Route]:
    """Return the service's route."""

    async def launch_plan(request: Request) -> Response:
        return await planner.answer(request)

    return [Route(PATH, launch_plan, methods=["POST"])]


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _decoded(body: bytes) -> LaunchRequest:
    try:
        return msgspec.json.decode(body, type=LaunchRequest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(
            400,
            ProblemReason.BAD_REQUEST,
            f"the body is no launch request: {error}"[:512],
            "send one as the OpenAPI document has it",
        ) from error


def _unavailable(reason: ProblemReason, what: str) -> Problem:
    return Problem(503, reason, f"{what} now", "ask again in a moment", headers=_AGAIN)
