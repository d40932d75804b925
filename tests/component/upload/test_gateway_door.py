"""How often the gateway asks the registry about sessions, and that it needs no memory to answer right."""

from __future__ import annotations

import asyncio
import collections
import hashlib
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import pytest_asyncio

from aimodels.upload.access import Door
from aimodels.upload.app import App
from aimodels.upload.lookups import (
    FRESH_SECONDS,
    MOST_WAITING,
    RECENT_SECONDS,
    REVOKED_SECONDS,
    UNKNOWN_SECONDS,
)
from aimodels.upload.receiving import Receiver
from modelio.registry import Patience, RegistryClient, TransferSpec
from opskit.clock import ManualClock
from tests.kit import asgi
from tests.kit.eventually import eventually
from tests.kit.httpproxy import HttpProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.kit.asgi import Answer
    from tests.kit.gatewayworld import Ticket
    from tests.kit.gatewayworld import World as Running

pytestmark = pytest.mark.asyncio(loop_scope="session")

AT_ONCE = 16


class World:
    """A gateway in this process that may forget everything, and the running registry behind a proxy."""

    def __init__(self, running: Running, proxy: HttpProxy, client: RegistryClient, ticket: Ticket) -> None:
        self.catalogue = running.catalogue
        self.account = running.account
        self.proxy = proxy
        self.ticket = ticket
        self.clock = ManualClock()
        self._client = client
        self._token_file = running.gateway.token_file
        self.restart()

    def restart(self) -> None:
        door = Door(self._client, self._token_file, self.clock)
        self.app = App(door, Receiver(), self.clock, idle_seconds=30)

    async def head(self, session: str = "", token: str = "") -> Answer:
        shown = {"Authorization": f"Bearer {token or self.ticket.token}"}
        url = f"/v1/upload/{session or self.ticket.session}"
        return await asgi.request(self.app, "HEAD", url, b"", headers=shown)

    def exchanges(self) -> int:
        return len(self.proxy.asked("POST", "/token"))

    async def until_exchanges(self, count: int) -> None:
        async def enough() -> bool:
            return self.exchanges() == count

        await eventually(enough)

    def spec(self, **changes: Any) -> TransferSpec:
        """Return what the catalogue allows, as it stands or changed."""
        spec = TransferSpec(
            service_account=self.account,
            repository=self.ticket.repository,
            purpose="upload",
            actions=("pull", "push"),
            token_hash=hashed(self.ticket.token),
        )
        return msgspec.structs.replace(spec, **changes)

    def hold(self, count: int) -> asyncio.Event:
        """Keep the next exchanges waiting; the event lets them go."""
        go = asyncio.Event()
        for _ in range(count):
            self.proxy.let_pass("POST", "/token", go.wait)
        return go


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def proxy(gateway_world: Running) -> AsyncIterator[HttpProxy]:
    async with HttpProxy(gateway_world.dmcr.url) as proxy:
        yield proxy


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def client(proxy: HttpProxy) -> AsyncIterator[RegistryClient]:
    async with RegistryClient(proxy.url, patience=Patience(retry=0)) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def world(gateway_world: Running, proxy: HttpProxy, client: RegistryClient) -> World:
    proxy.forgive()
    proxy.seen.clear()
    return World(gateway_world, proxy, client, await gateway_world.allow())


def hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def told(answer: Answer) -> tuple[int, str]:
    return answer.status, json.loads(answer.body).get("reason", "")


async def get(world: World, token: str = "") -> tuple[int, str]:
    shown = {"Authorization": f"Bearer {token or world.ticket.token}"}
    return told(
        await asgi.request(world.app, "GET", f"/v1/upload/{world.ticket.session}", b"", headers=shown)
    )


async def test_a_flood_of_wrong_tokens_is_one_exchange(world: World) -> None:
    go = world.hold(1)
    flood = [asyncio.create_task(world.head(token=f"wrong{number}")) for number in range(100)]
    right = asyncio.create_task(world.head())
    await world.until_exchanges(1)
    flood[0].cancel()
    go.set()
    statuses = {(await one).status for one in flood[1:]}
    assert (statuses, (await right).status, world.exchanges()) == ({401}, 200, 1)
    assert {(await world.head(token=f"wrong{number}")).status for number in range(100)} == {401}
    assert world.exchanges() == 1


async def test_a_flood_of_sessions_that_are_none_is_bounded_and_keeps_nobody_out(world: World) -> None:
    assert (await world.head()).status == 200
    await world.clock.advance(FRESH_SECONDS + 1)
    go, before = world.hold(AT_ONCE), world.exchanges()
    flood = [asyncio.create_task(world.head(f"upload-none-g1-{number}")) for number in range(300)]
    await world.until_exchanges(before + AT_ONCE)
    refused = [one.result() for one in flood if one.done()]
    assert {(one.status, one.headers["retry-after"]) for one in refused} == {(429, "1")}
    assert (await world.head()).status == 200, "who was let in before is not behind the flood"
    go.set()
    statuses = collections.Counter([(await one).status for one in flood])
    assert statuses == {429: 300 - MOST_WAITING, 401: MOST_WAITING}
    assert world.exchanges() == before + MOST_WAITING + 1
    assert (await world.head("upload-none-g1-0")).status == 401
    assert world.exchanges() == before + MOST_WAITING + 1, "that there is none is remembered"


async def test_a_session_asked_for_too_early_is_found_soon(world: World) -> None:
    session = world.ticket.session + "x"
    assert (await world.head(session)).status == 401
    await world.catalogue.put_transfer(session, world.spec())

    async def found() -> bool:
        await world.clock.advance(UNKNOWN_SECONDS)
        return (await world.head(session)).status == 200

    await eventually(found)


async def test_after_a_restart_the_holder_of_the_token_learns_that_the_upload_is_over(world: World) -> None:
    await world.catalogue.revoke_transfer(world.ticket.session)
    world.restart()
    assert await get(world) == (410, "UploadEnded")
    assert await get(world, "wrong") == (401, "Unauthorized")
    await world.clock.advance(REVOKED_SECONDS + 1)
    assert await get(world) == (410, "UploadEnded")


async def test_an_upload_that_was_forgotten_ends_by_itself(world: World) -> None:
    await world.catalogue.put_transfer(world.ticket.session, world.spec(idle_seconds=1))

    async def over() -> bool:
        world.restart()
        return await get(world) == (410, "UploadEnded")

    await eventually(over)
    assert await get(world, "wrong") == (401, "Unauthorized")


async def test_a_token_issued_again_is_taken_at_once_and_the_one_before_refused(world: World) -> None:
    assert (await world.head()).status == 200
    await world.clock.advance(RECENT_SECONDS)
    await world.catalogue.put_transfer(world.ticket.session, world.spec(token_hash=hashed("new")))
    assert (await world.head(token="new")).status == 200
    assert (await world.head()).status == 401
    assert world.exchanges() == 2


async def test_wrong_tokens_ask_once_in_a_second_whatever_is_answered(world: World) -> None:
    assert (await world.head()).status == 200
    for known in range(1, 4):
        await world.clock.advance(RECENT_SECONDS)
        go = world.hold(1)
        flood = [asyncio.create_task(world.head(token=f"wrong{number}")) for number in range(50)]
        await world.until_exchanges(known + 1)
        right = await world.head()
        go.set()
        assert {(await one).status for one in flood} == {401}
        assert (right.status, (await world.head(token="wrong")).status) == (200, 401)
        assert world.exchanges() == known + 1
    await world.clock.advance(RECENT_SECONDS)
    world.proxy.fail("POST", "/token", 500)
    before = world.exchanges()
    statuses = [(await world.head(token=f"wrong{number}")).status for number in range(50)]
    assert statuses == [503] + [401] * 49
    assert world.exchanges() == before + 1
    assert (await world.head()).status == 200


async def test_the_holder_of_a_token_issued_again_is_not_kept_out_by_a_flood_of_wrong_ones(
    world: World,
) -> None:
    assert (await world.head()).status == 200
    await world.clock.advance(RECENT_SECONDS)
    go = world.hold(1)
    wrong = asyncio.create_task(world.head(token="wrong"))
    await world.until_exchanges(2)
    await world.catalogue.put_transfer(world.ticket.session, world.spec(token_hash=hashed("new")))
    right = asyncio.create_task(world.head(token="new"))
    go.set()
    assert ((await wrong).status, (await right).status, world.exchanges()) == (401, 200, 2)


async def test_an_upload_that_lapsed_and_is_issued_again_is_taken_up(world: World) -> None:
    await world.catalogue.put_transfer(world.ticket.session, world.spec(idle_seconds=1))

    async def over() -> bool:
        world.restart()
        return await get(world) == (410, "UploadEnded")

    await eventually(over)
    await world.catalogue.put_transfer(world.ticket.session, world.spec(token_hash=hashed("new")))
    await world.clock.advance(RECENT_SECONDS)
    assert (await get(world, "new"))[0] == 200


async def test_an_upload_that_lapsed_and_is_allowed_anew_goes_on_soon(world: World) -> None:
    await world.catalogue.put_transfer(world.ticket.session, world.spec(idle_seconds=1))

    async def over() -> bool:
        world.restart()
        return await get(world) == (410, "UploadEnded")

    await eventually(over)
    await world.catalogue.put_transfer(world.ticket.session, world.spec())
    await world.clock.advance(FRESH_SECONDS)
    assert (await get(world))[0] == 200


async def test_what_was_revoked_is_not_asked_about_for_wrong_tokens(world: World) -> None:
    await world.catalogue.revoke_transfer(world.ticket.session)
    assert await get(world) == (410, "UploadEnded")
    await world.clock.advance(REVOKED_SECONDS - 1)
    assert await get(world, "wrong") == (401, "Unauthorized")
    assert world.exchanges() == 1
