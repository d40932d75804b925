"""The planner's service without a cluster: who asks and what there is are played."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette

from aiinference.planner import service
from aiinference.planner.inventory import Inventory
from kubekit.reviews import Identity
from tests.kit.launchplans import RECIPES
from webkit import problems

if TYPE_CHECKING:
    from kubekit.errors import KubeError

CONTROLLER = "system:serviceaccount:d8-ai-inference:ai-inference-controller"
TOKENS = {"controller": CONTROLLER, "stranger": "system:serviceaccount:support:default"}


class Reviews:
    """Tokens are names; ``error`` is what the API server answers instead."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    async def identify(self, token: str) -> Identity | None:
        if self.error:
            raise self.error
        user = TOKENS.get(token)
        return Identity(username=user) if user else None


class Source:
    """An inventory, or the error instead."""

    def __init__(self) -> None:
        self.held = Inventory()
        self.error: KubeError | None = None

    async def inventory(self) -> Inventory:
        if self.error:
            raise self.error
        return self.held


class Service:
    """The application and the handles of what is played."""

    def __init__(self) -> None:
        self.reviews = Reviews()
        self.source = Source()
        planner = service.Planner(
            recipes=RECIPES,
            source=self.source,
            reviews=self.reviews,
            callers=frozenset({CONTROLLER}),
            audience="ai-inference-planner",
        )
        self.app = Starlette(routes=service.routes(planner), exception_handlers=problems.handlers())
