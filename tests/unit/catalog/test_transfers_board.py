"""The board of transfers: one poll for everybody, and nothing older than one's own act."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

import pytest

from aimodels.catalog.registry import TOLD_AFTER, Registry
from aimodels.catalog.transfers import TransferBoard, tags_of
from modelio.registry import RegistryClient, RegistryUnavailable, TransferProgress
from opskit.clock import ManualClock
from tests.kit.observations import UID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

UPLOAD, PUBLISH = f"upload-{UID}-g1-ab", f"publish-{UID}-g1-a1"


class FakeClient:
    """Answers with what a test put there."""

    def __init__(self) -> None:
        self.items: list[TransferProgress] = []
        self.calls = 0
        self.error: RegistryUnavailable | None = None
        self.meanwhile: Callable[[], None] = lambda: None

    async def list_transfers(self) -> list[TransferProgress]:
        self.calls += 1
        answer = list(self.items)
        self.meanwhile()
        if self.error:
            raise self.error
        return answer


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.client = FakeClient()
        self.registry = Registry("http://registry", None, self.clock)
        self.registry._client = cast("RegistryClient", self.client)
        self.registry._made.set()
        self.board = TransferBoard(self.registry, self.clock)
        self.told: list[str] = []
        self.needed = True
        self.board.watch(("upload-", "publish-"), needed=lambda: self.needed, changed=self._changed)

    def _changed(self, items: Iterable[TransferProgress]) -> None:
        self.told += [item.id for item in items]

    async def poll(self) -> list[str]:
        """Poll a second later and return what was told about."""
        await self.clock.advance(1)
        self.told.clear()
        await self.board.poll()
        return sorted(self.told)


@pytest.fixture
def world() -> World:
    return World()


def item(name: str, offset: int = 0, **fields: object) -> TransferProgress:
    purpose = "upload" if name.startswith("upload") else "publication"
    return TransferProgress(id=name, purpose=purpose, repository="r", offset=offset, **fields)  # type: ignore[arg-type]


async def test_only_differences_are_told(world: World) -> None:
    world.client.items = [item(UPLOAD), item("copy-x")]
    assert await world.poll() == [UPLOAD]
    assert await world.poll() == []
    world.client.items = [item(UPLOAD, 5)]
    assert await world.poll() == [UPLOAD]
    world.client.items = []
    assert await world.poll() == [UPLOAD]


async def test_every_reader_is_told_of_its_own_transfers(world: World) -> None:
    copies: list[str] = []
    world.board.watch(
        ("copy-",), needed=lambda: False, changed=lambda items: copies.extend(one.id for one in items)
    )
    world.client.items = [item(UPLOAD), item("copy-x")]
    await world.poll()
    assert copies == ["copy-x"]


async def test_a_model_sees_its_own_transfers_only(world: World) -> None:
    world.client.items = [item(UPLOAD), item("upload-other-g1-ab"), item("copy-x")]
    await world.poll()
    assert list(world.board.of(UID) or {}) == [UPLOAD]
    assert world.board.get("copy-x")


async def test_before_the_first_snapshot_nothing_is_known(world: World) -> None:
    assert world.board.of(UID) is None
    assert await world.board.known()
    assert world.board.of(UID) == {}
    assert world.client.calls == 1


async def test_a_snapshot_that_began_before_our_own_act_does_not_undo_it(world: World) -> None:
    world.client.items = [item(UPLOAD)]
    await world.poll()

    def act_meanwhile() -> None:
        world.board.put(PUBLISH, "publication", "r")
        world.board.revoked(UPLOAD)

    world.client.meanwhile = act_meanwhile
    await world.poll()
    assert list(world.board.of(UID) or {}) == [PUBLISH]

    world.client.meanwhile = lambda: None
    world.client.items = [item(PUBLISH, delivered_bytes=7)]
    await world.poll()
    seen = world.board.of(UID) or {}
    assert [one.delivered_bytes for one in seen.values()] == [7]


async def test_speed_is_that_of_the_last_seconds(world: World) -> None:
    for offset in (0, 100, 200, 300):
        world.client.items = [item(UPLOAD, offset)]
        await world.poll()
    seen = world.board.get(UPLOAD)
    assert seen
    assert world.board.bytes_of(seen).speed == pytest.approx(100, rel=0.01)


async def test_a_publication_is_as_far_as_it_has_read(world: World) -> None:
    seen = item(PUBLISH, 3, delivered_bytes=150, received_bytes=20, expected_bytes=100)
    assert world.board.bytes_of(seen).moved == 100


async def test_what_an_earlier_attempt_stored_counts_for_the_next_one(world: World) -> None:
    seen = item(PUBLISH, 70, delivered_bytes=15, received_bytes=10, expected_bytes=100)
    assert world.board.bytes_of(seen).moved == 70


async def test_the_poll_rests_while_nobody_needs_it(world: World) -> None:
    world.needed = False
    running = asyncio.create_task(world.board.run())
    await world.clock.advance(10)
    assert world.client.calls == 0

    world.needed = True
    world.board.wake()
    await world.clock.until_sleeping()
    await world.clock.advance(3)
    assert world.client.calls == 4
    running.cancel()


async def test_an_outage_is_told_after_a_while_and_its_end_at_once(world: World) -> None:
    flips: list[str] = []
    world.registry.tell(lambda: flips.append(world.registry.problem))
    world.client.items = [item(UPLOAD, 5)]
    await world.poll()
    world.client.error = RegistryUnavailable("refused")
    for _ in range(int(TOLD_AFTER)):
        await world.poll()
        assert not world.registry.problem
    await world.poll()
    assert "refused" in world.registry.problem
    assert world.board.get(UPLOAD), "the last snapshot stands"

    world.client.error = None
    await world.poll()
    assert flips == [flips[0], ""]


async def test_new_certificates_to_trust_are_told() -> None:
    registry = Registry("https://registry", None, ManualClock())
    told: list[bool] = []
    registry.tell(lambda: told.append(True))
    await registry.trust(None)
    assert told == [True]
    await registry.close()


def test_tags_are_those_of_the_repository_that_transfers_share() -> None:
    one = item(UPLOAD, tags={"upload": "a"}, last_progress_time=datetime.now(UTC))
    assert tags_of([one, item(PUBLISH, tags={"published": "b"})]) == {"upload": "a", "published": "b"}
