"""What an error of the registry means: for everybody, or for the one model that asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from aimodels.api.reasons import ModelReason, Phase
from aimodels.catalog import reconcile
from aimodels.catalog.act import JobRefused
from aimodels.catalog.names import Key
from aimodels.catalog.reconcile import Reconciler
from aimodels.catalog.registry import is_outage
from aimodels.catalog.state import Observation, Obstacle, PublicationJob
from aimodels.catalog.verify import UploadGone, received_file
from aimodels.jobs.observed import JobPhase
from kubekit.controller import Again
from kubekit.errors import Transient
from modelio.registry import (
    Denied,
    DigestMismatch,
    NotAuthorised,
    NotFound,
    RegistryError,
    RegistryUnavailable,
    SessionLost,
)
from opskit.clock import ManualClock
from tests.kit.observations import publishing

if TYPE_CHECKING:
    from aimodels.api.model import AnyModel, ModelStatus
    from modelio.registry import RegistryClient

GONE = NotFound("no such manifest", status=404, code="MANIFEST_UNKNOWN")
FOREIGN = NotFound("nginx", status=404)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RegistryUnavailable("503"), True),
        (NotAuthorised("401"), True),
        (Denied("403"), True),
        (FOREIGN, True),
        (GONE, False),
        (NotFound("x", code="NAME_UNKNOWN"), False),
        (SessionLost("409"), False),
        (DigestMismatch("x"), False),
    ],
)
def test_only_errors_of_the_store_as_a_whole_are_an_outage(error: RegistryError, *, expected: bool) -> None:
    assert is_outage(error) is expected


class Failing:
    """A registry that answers with one error, or one manifest."""

    def __init__(self, error: RegistryError | None, body: bytes = b"") -> None:
        self.error = error
        self.body = body

    async def get_manifest(self, *_: str) -> Any:
        if self.error is not None:
            raise self.error
        return self


@pytest.mark.parametrize(
    "registry",
    [
        Failing(GONE),
        Failing(DigestMismatch("x")),
        Failing(None, b"{"),
        Failing(None, b'{"layers":[]}'),
        Failing(None, b'{"layers":[{"digest":1}]}'),
    ],
)
async def test_a_file_that_is_not_there_as_it_was_received_is_gone(registry: Failing) -> None:
    with pytest.raises(UploadGone):
        await received_file(cast("RegistryClient", registry), "models/a/b", "upload")


@pytest.mark.parametrize("error", [RegistryUnavailable("503"), Denied("403"), FOREIGN])
async def test_a_file_is_not_given_up_because_of_an_outage(error: RegistryError) -> None:
    with pytest.raises(type(error)):
        await received_file(cast("RegistryClient", Failing(error)), "models/a/b", "upload")


class World:
    """Everything around a reconciler; acting fails with one error, once."""

    problem = ""

    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error
        self.observation = publishing(job=PublicationJob(JobPhase.ABSENT))
        self.told: list[RegistryError] = []
        self.statuses: list[ModelStatus] = []
        self.obstacles: list[Obstacle] = []

    def model(self, _key: Key) -> AnyModel:
        return self.observation.model

    async def observe(self, *_: object) -> Observation:
        return self.observation

    def hindered(self, _model: AnyModel, obstacle: Obstacle) -> None:
        self.obstacles.append(obstacle)

    async def act(self, *_: object) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error

    def failed(self, error: RegistryError) -> None:
        self.told.append(error)

    async def status(self, _model: AnyModel, status: ModelStatus | None) -> str | None:
        if status is not None:
            self.statuses.append(status)
        return "8"

    async def notes(self, *_: object) -> None:
        return

    async def reconcile(self) -> Any:
        me = cast("Any", self)
        made = Reconciler(me, me, me, me, reporter=me, clock=ManualClock())
        return await made.reconcile(Key.of(self.observation.model))


async def test_a_file_that_is_gone_when_its_job_begins_fails_its_model_and_is_no_outage() -> None:
    world = World(UploadGone("MANIFEST_UNKNOWN"))
    await world.reconcile()
    (status,) = world.statuses
    assert status.phase == Phase.FAILED
    assert world.told == []


async def test_what_one_model_is_refused_is_tried_again_and_is_no_outage() -> None:
    world = World(GONE)
    with pytest.raises(Transient):
        await world.reconcile()
    assert world.told == []
    assert world.statuses == []


async def test_an_outage_is_told_and_fails_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "TOLD_AFTER", 0.0)
    world = World(Denied("the store refuses"))
    with pytest.raises(Transient):
        await world.reconcile()
    (status,) = world.statuses
    assert status.phase == Phase.PUBLISHING
    assert {one.reason for one in status.conditions} >= {ModelReason.STORAGE_UNAVAILABLE}
    assert world.told


async def test_a_job_that_the_cluster_refuses_is_noted_and_looked_at_at_once() -> None:
    world = World(JobRefused("exceeded quota"))
    outcome = await world.reconcile()
    assert isinstance(outcome, Again)
    assert outcome.after < 1
    (obstacle,) = world.obstacles
    assert "exceeded quota" in obstacle.message
    assert world.statuses == [], "a Job that was not made is not told as running"
