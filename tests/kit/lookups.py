"""The lookup's route without a cluster: who is accepted and allowed is a matter of the test."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from starlette.applications import Starlette

from aimodels.api.model import (
    AnyModel,
    ArtifactStatus,
    ClusterModel,
    Model,
    ModelSource,
    ModelSpec,
    ModelStatus,
    ResolvedStatus,
    UploadSource,
)
from aimodels.lookup.routes import PATH, routes
from kubekit.conditions import Condition
from kubekit.manager import Manager
from kubekit.resources.meta import ObjectMeta
from tests.kit.asgi import Answer, request
from webkit import problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubekit.client import Client

DIGEST = "sha256:" + "ab" * 32
ALICE = "alice"


@dataclass
class ApiServer:
    """Reviews as the real one does: tokens are names of users, and rights are (user, what)."""

    users: set[str] = field(default_factory=lambda: {ALICE})
    rights: set[tuple[str, str, str, str]] = field(default_factory=set)
    error: Exception | None = None
    #: reviews wait for it
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[dict[str, Any]] = field(default_factory=list)
    seen: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.answers.set()

    async def create(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a review."""
        self.asked.append(dict(manifest))
        self.seen.set()
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        spec = manifest["spec"]
        if manifest["kind"] == "TokenReview":
            user = spec["token"].rpartition("|")[2]
            if user not in self.users:
                return {"status": {"authenticated": False, "user": {}}}
            who = {"username": user, "uid": "1", "groups": ["people"]}
            return {"status": {"authenticated": True, "user": who, "audiences": spec.get("audiences", [])}}
        what = spec["resourceAttributes"]
        right = (spec["user"], what["resource"], what.get("namespace", ""), what["name"])
        assert (what["verb"], what["group"]) == ("get", "ai.deckhouse.io")
        return {"status": {"allowed": right in self.rights, "reason": "because"}}

    def allow(self, resource: str, namespace: str, name: str, user: str = ALICE) -> None:
        """Let a user get a model, whether it exists or not."""
        self.rights.add((user, resource, namespace, name))

    def count(self, kind: str) -> int:
        """Return how many reviews of a kind were asked for."""
        return sum(one["kind"] == kind for one in self.asked)


class Lookup:
    """The route over stores that the test fills."""

    def __init__(self) -> None:
        self.server = ApiServer()
        self.manager = Manager(cast("Client", self.server))
        self.app = Starlette(routes=routes(self.manager), exception_handlers=problems.handlers())
        for struct in (Model, ClusterModel):
            self.manager.informer(struct).synced.set()

    def know(self, model: AnyModel) -> None:
        """Have the process know a model."""
        self.manager.informer(type(model)).store.apply(model)

    async def ask(self, query: str, token: str = ALICE) -> Answer:
        """Send one lookup."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return await request(self.app, "GET", f"{PATH}?{query}", headers=headers)


def condition(status: str, reason: str = "Ready", message: str = "Said.") -> Condition:
    """Return the condition Ready."""
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    return Condition(
        type="Ready", status=cast("Any", status), reason=reason, message=message, last_transition_time=moment
    )


def ready_status(resolved: ResolvedStatus) -> ModelStatus:
    """Return the status of a model that is ready."""
    return ModelStatus(
        phase="Ready",
        artifact=ArtifactStatus(digest=DIGEST, size_bytes=253_000_000, stored_bytes=1, size="241 MiB"),
        resolved=resolved,
        conditions=(condition("True"),),
    )


def model(
    name: str, namespace: str | None = None, status: ModelStatus | None = None, **metadata: Any
) -> AnyModel:
    """Return a Model, or a ClusterModel when there is no namespace."""
    place = ObjectMeta(name=name, namespace=namespace or "", uid=name, resource_version="1", **metadata)
    spec = ModelSpec(source=ModelSource(upload=UploadSource()))
    if namespace:
        return Model(metadata=place, spec=spec, status=status)
    return ClusterModel(metadata=place, spec=spec, status=status)
