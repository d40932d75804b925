"""What the end of an attempt, and of a publication, asks of the registry."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from aimodels.catalog.act import Actor
from aimodels.catalog.names import Key, publication_transfer, repository
from aimodels.catalog.state import Obstacle, RevokeTransfer, RevokeTransfers, StepBack
from modelio.registry import TransferProgress
from tests.kit.observations import UID, model

if TYPE_CHECKING:
    from aimodels.catalog.state import Action

FIRST, SECOND = (publication_transfer(UID, 1, attempt) for attempt in (1, 2))
OBSTACLE = Obstacle("no node fits", datetime(2026, 1, 1, tzinfo=UTC))


class Everything:
    """Cluster and registry, as far as an end needs them; keeps what the registry was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    async def client(self) -> Everything:
        return self

    async def list(self, *_: object, **__: object) -> tuple[object, ...]:
        return ()

    async def list_transfers(self) -> tuple[TransferProgress, ...]:
        return (TransferProgress(id=SECOND, purpose="publication", repository="r"),)

    async def revoke_transfer(self, transfer: str, *, keep_sessions: bool = False) -> None:
        self.asked.append(("keep" if keep_sessions else "void", transfer))

    async def end_sessions(self, name: str) -> None:
        self.asked.append(("end", name))

    def answered(self) -> None:
        """Take note that the registry is there."""

    def revoked(self, _: str) -> None:
        """Show the transfer no more."""

    def hinder(self, *_: object) -> None:
        """Have the model wait behind the others."""


@pytest.mark.parametrize(
    ("action", "asked"),
    [
        (RevokeTransfer(FIRST), [("keep", FIRST)]),
        (StepBack(1, OBSTACLE), [("keep", FIRST)]),
        (RevokeTransfers(), [("void", SECOND), ("end", repository(Key.of(model())))]),
    ],
)
async def test_only_the_publication_s_end_drops_what_is_stored(
    action: Action, asked: list[tuple[str, ...]]
) -> None:
    everything, about = Everything(), model()
    one = cast("Any", everything)
    jobs = cast("Any", SimpleNamespace(namespace="d8-ai-models"))
    actor = Actor(one, one, one, one, one, jobs=jobs, handout=one)
    await actor.act(Key.of(about), about, action)
    assert everything.asked == asked
