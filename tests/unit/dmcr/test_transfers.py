"""Transfer records: upsert, revocation, freshness; and the door that rests on them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from aimodels.dmcr.door import GrantDoor
from aimodels.dmcr.grants import GrantedAccess, Grants, Keys
from aimodels.dmcr.metering import Metering, meter_key
from aimodels.dmcr.principal import Principal
from aimodels.dmcr.problems import Conflict, Denied, Invalid, NotFound, Unauthorized
from aimodels.dmcr.repositories import Repositories
from aimodels.dmcr.swaps import Swaps
from aimodels.dmcr.transfers import (
    FRESH_SECONDS,
    REVOKED_SECONDS,
    REVOKED_UPLOAD_SECONDS,
    Transfers,
    transfer_key,
)
from modelio.wire import TransferSpec
from objectstore.memory import MemoryStore
from opskit.clock import ManualClock

PUSH = TransferSpec(
    service_account="ns/account", repository="models/team/x", purpose="upload", actions=("push",)
)
PULL = TransferSpec(service_account="ns/account", repository="models/team/x", purpose="copy")


class World:
    """Two replicas over one store and one clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore()
        self.meter, self.meter_there = (Metering(Swaps(self.store, self.clock)) for _ in range(2))
        self.here, self.there = self._replica(self.meter), self._replica(self.meter_there)
        self.repositories = Repositories(Swaps(self.store, self.clock), "owner")

    def _replica(self, meter: Metering) -> Transfers:
        swaps = Swaps(self.store, self.clock)
        return Transfers(swaps, Repositories(swaps, "owner"), meter.moved)


@pytest.fixture
def world() -> World:
    return World()


async def ids(transfers: Transfers) -> set[str]:
    return {transfer.id async for transfer in transfers.all_active()}


async def test_put_is_repeatable_and_opens_the_repository_once(world: World) -> None:
    await world.here.put("t1", PUSH)
    first = await world.here.active("t1")
    await world.there.put("t1", PUSH)
    await world.here.put("t1", msgspec.structs.replace(PUSH, expected_bytes=5))
    again = await world.here.active("t1")
    assert again.life == first.life == (await world.repositories.find("models/team/x")).life
    assert again.spec.expected_bytes == 5


async def test_reading_needs_an_open_repository(world: World) -> None:
    with pytest.raises(NotFound):
        await world.here.put("t1", PULL)
    await world.repositories.open("models/team/x")
    await world.here.put("t1", PULL)
    await world.repositories.close("models/team/x")
    with pytest.raises(NotFound):
        await world.here.put("t2", PULL)


async def test_repeating_a_put_never_reopens_a_closed_repository(world: World) -> None:
    await world.here.put("t1", PUSH)
    await world.repositories.close("models/team/x")
    await world.here.put("t1", PUSH)
    record = await world.repositories.get("models/team/x")
    assert record is not None
    assert record.state == "closed"


async def test_revoked_is_final_and_repeatable(world: World) -> None:
    await world.here.put("t1", PUSH)
    await world.here.revoke("t1")
    await world.here.revoke("t1")
    with pytest.raises(Denied, match="revoked"):
        await world.here.active("t1")
    with pytest.raises(Conflict):
        await world.here.put("t1", PUSH)
    assert await world.here.revoke("unknown") is None


async def test_transfer_never_moves_to_another_repository(world: World) -> None:
    await world.here.put("t1", PUSH)
    with pytest.raises(Conflict):
        await world.here.put("t1", msgspec.structs.replace(PUSH, repository="models/team/y"))


async def test_revocation_reaches_other_replicas_within_the_time(world: World) -> None:
    await world.here.put("t1", PUSH)
    await world.there.active("t1")
    await world.here.revoke("t1")
    with pytest.raises(Denied):
        await world.here.active("t1")
    await world.there.active("t1")
    await world.clock.advance(FRESH_SECONDS)
    with pytest.raises(Denied):
        await world.there.active("t1")


async def test_record_that_vanished_refuses(world: World) -> None:
    await world.here.put("t1", PUSH)
    await world.store.delete(transfer_key("t1"))
    await world.clock.advance(FRESH_SECONDS)
    with pytest.raises(Denied):
        await world.here.active("t1")


async def test_new_transfer_is_seen_by_a_replica_that_was_asked_too_early(world: World) -> None:
    with pytest.raises(Denied):
        await world.there.active("t1")
    await world.here.put("t1", PUSH)
    await world.clock.advance(FRESH_SECONDS)
    await world.there.active("t1")


async def test_list_has_what_is_active_and_forgets_the_revoked(world: World) -> None:
    for number in range(70):
        await world.here.put(f"t{number}", msgspec.structs.replace(PUSH, purpose="publication"))
    await world.here.revoke("t3")
    assert await ids(world.there) == {f"t{number}" for number in range(70)} - {"t3"}
    await world.store.head(transfer_key("t3"))
    await world.store.put(meter_key("t3"), b"{}")
    await world.clock.advance(REVOKED_SECONDS + 1)
    await ids(world.there)
    assert not {transfer_key("t3"), meter_key("t3")} & {key async for key in world.store.list("")}
    with pytest.raises(Denied):
        await world.here.active("t3")


async def test_a_revoked_upload_stays_on_record_for_whoever_has_its_token(world: World) -> None:
    await world.here.put("t1", PUSH)
    await world.here.revoke("t1")
    await world.clock.advance(REVOKED_UPLOAD_SECONDS - 1)
    await ids(world.there)
    assert (await world.there.known("t1")).state == "revoked"
    await world.clock.advance(2)
    await ids(world.there)
    with pytest.raises(NotFound):
        await world.here.get("t1")


IDLE = 24 * 3600
LAPSING = msgspec.structs.replace(PUSH, idle_seconds=IDLE)
PUSHER = Principal(name="gateway", transfer="t1", purpose="upload")


async def lapsed(transfers: Transfers) -> bool:
    try:
        await transfers.active("t1")
    except Denied as refusal:
        return "lapsed" in refusal.message
    return False


async def test_a_forgotten_transfer_ends_by_itself_and_is_still_shown(world: World) -> None:
    await world.here.put("t1", LAPSING)
    await world.clock.advance(IDLE - 1)
    assert not await lapsed(world.here)
    await world.clock.advance(1)
    assert await lapsed(world.here)
    assert await lapsed(world.there)
    assert await ids(world.here) == {"t1"}, "what it means is the catalogue's decision"


async def test_every_byte_renews_a_transfer_whichever_replica_counts_it(world: World) -> None:
    await world.here.put("t1", LAPSING)
    for _ in range(5):
        await world.clock.advance(IDLE - 10)
        world.meter.received(PUSHER, 1)
        assert not await lapsed(world.here)
        await world.meter.flush()
        await world.clock.advance(20)
        assert not await lapsed(world.there)
    await world.clock.advance(IDLE - 20)
    assert await lapsed(world.there)
    assert await lapsed(world.here)


async def test_a_put_renews_a_transfer_that_had_lapsed(world: World) -> None:
    await world.here.put("t1", LAPSING)
    await world.clock.advance(IDLE)
    assert await lapsed(world.there)
    await world.here.put("t1", LAPSING)
    await world.clock.advance(FRESH_SECONDS)
    assert not await lapsed(world.there)


async def test_while_a_transfer_is_young_no_bytes_are_asked_for(world: World) -> None:
    asked = list[str]()

    async def moved(transfer: str) -> int:
        asked.append(transfer)
        return 0

    swaps = Swaps(world.store, world.clock)
    transfers = Transfers(swaps, Repositories(swaps, "owner"), moved)
    await transfers.put("t1", LAPSING)
    await transfers.active("t1")
    await world.clock.advance(IDLE - 1)
    await transfers.active("t1")
    assert asked == []


async def test_racing_writers_agree(world: World) -> None:
    puts = [
        replica.put("t1", msgspec.structs.replace(PUSH, expected_bytes=n))
        for n in range(5)
        for replica in (world.here, world.there)
    ]
    await asyncio.gather(*puts, world.there.revoke("t0"))
    await world.clock.advance(FRESH_SECONDS)
    assert await world.here.active("t1") == await world.there.active("t1")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("service_account", "no-namespace"),
        ("service_account", "a/b/c"),
        ("pod_prefix", "Not-A-Pod"),
        ("pod_prefix", "x" * 300),
        ("repository", "Models/x"),
        ("repository", "models//x"),
        ("repository", "../x"),
        ("repository", "x" * 300),
        ("digest", "sha256:abc"),
        ("digest", "md5:" + "0" * 32),
        ("token_hash", "secret"),
        ("expected_bytes", -1),
        ("expected_bytes", 1 << 60),
        ("idle_seconds", 0),
        ("idle_seconds", 1 << 40),
        ("actions", ()),
        ("actions", ("pull", "pull")),
    ],
)
async def test_records_are_checked_field_by_field(world: World, field: str, value: Any) -> None:
    with pytest.raises(Invalid) as caught:
        await world.here.put("t1", msgspec.structs.replace(PUSH, **{field: value}))
    assert msgspec.structs.fields(TransferSpec)[
        [each.name for each in msgspec.structs.fields(TransferSpec)].index(field)
    ].encode_name in str(caught.value)


@pytest.mark.parametrize("transfer", ["", "A", "a/b", "-a", "a-", "a" * 129, "ä"])
async def test_ids_are_checked(world: World, transfer: str) -> None:
    with pytest.raises(Invalid, match="id"):
        await world.here.put(transfer, PUSH)


async def test_door_makes_the_principal_of_the_transfer(world: World) -> None:
    await world.here.put("t1", PUSH)
    grants = Grants(Keys([Ed25519PrivateKey.generate()]), world.clock)
    door = GrantDoor(grants, world.here)
    access = (GrantedAccess("models/team/x", ("push",), life="l"),)
    token, _ = grants.issue("pod", transfer="t1", access=access)
    caller = await door.authenticate({"authorization": f"bearer {token}"})
    assert (caller.name, caller.transfer, caller.purpose, caller.catalogue) == ("pod", "t1", "upload", False)
    assert caller.may("models/team/x", "push")
    assert not caller.may("models/team/x", "pull")
    assert not caller.may("models/team/y", "push")
    await world.here.revoke("t1")
    with pytest.raises(Denied):
        await door.authenticate({"authorization": f"Bearer {token}"})


@pytest.mark.parametrize("headers", [{}, {"authorization": "Basic eDp5"}, {"authorization": "Bearer x"}])
async def test_door_refuses_without_a_grant(world: World, headers: dict[str, str]) -> None:
    door = GrantDoor(Grants(Keys([Ed25519PrivateKey.generate()]), world.clock), world.here)
    with pytest.raises(Unauthorized):
        await door.authenticate(headers)


async def test_grant_without_a_transfer_is_the_catalogue_only_if_it_says_so(world: World) -> None:
    grants = Grants(Keys([Ed25519PrivateKey.generate()]), world.clock)
    door = GrantDoor(grants, world.here)
    for catalogue in (True, False):
        token, _ = grants.issue("x", catalogue=catalogue)
        caller = await door.authenticate({"authorization": f"Bearer {token}"})
        assert caller.may("models/team/x", "delete") is catalogue
