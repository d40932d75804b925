from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from aimodels.api.model import AnyModel, Model
from aimodels.api.reasons import Phase
from aimodels.catalog.names import publication_transfer, upload_transfer
from aimodels.catalog.sweep import Sweeper
from kubekit.store import Store
from modelio.registry import TransferProgress
from opskit.clock import ManualClock
from tests.kit.observations import UID, model, status

if TYPE_CHECKING:
    from aimodels.catalog.registry import Registry
    from kubekit.client import Client
    from kubekit.resources import Job

UPLOAD, PUBLICATION = upload_transfer(UID, 1, "ab"), publication_transfer(UID, 1, 1)


class Transfers:
    """The registry as far as sweeping asks it."""

    def __init__(self, *names: str) -> None:
        self.standing = list(names)
        self.swept: list[str] = []

    async def client(self) -> Transfers:
        return self

    async def list_transfers(self) -> list[TransferProgress]:
        return [TransferProgress(id=name, purpose="upload", repository="r") for name in self.standing]

    async def revoke_transfer(self, name: str) -> None:
        self.standing.remove(name)

    async def end_sessions(self, repository: str) -> None:
        self.swept.append(repository)


async def swept(*models: AnyModel) -> list[str]:
    """Return which transfers stand after a sweep."""
    registry = Transfers(UPLOAD, PUBLICATION, "copy-x")
    store: Store[AnyModel] = Store(Model.KIND.name)
    store.replace(models)
    jobs: Store[Job] = Store("Job")
    client = cast("Client", None)
    await Sweeper(client, cast("Registry", registry), [store], jobs, ManualClock()).once()
    assert (registry.swept == ["r"] * 2) == (registry.standing == ["copy-x"])
    return registry.standing


@pytest.mark.parametrize("phase", [Phase.READY, Phase.FAILED])
async def test_transfers_that_a_crash_left_to_a_model_that_is_done_are_revoked(phase: Phase) -> None:
    assert await swept(model(status(phase))) == ["copy-x"]


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.WAIT_FOR_UPLOAD, Phase.PUBLISHING, Phase.DELETING])
async def test_transfers_of_a_model_on_its_way_stand(phase: Phase) -> None:
    assert await swept(model(status(phase))) == [UPLOAD, PUBLICATION, "copy-x"]


async def test_transfers_of_a_model_without_a_status_stand_and_those_of_none_go() -> None:
    assert await swept(model()) == [UPLOAD, PUBLICATION, "copy-x"]
    assert await swept() == ["copy-x"]
