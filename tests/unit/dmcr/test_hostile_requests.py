"""Requests that nobody sends by mistake: a true answer each, nothing held for ever, nothing else reached."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from starlette.routing import Route

from aimodels.dmcr import parts, wire
from aimodels.dmcr.app import App
from aimodels.dmcr.control import Control
from aimodels.dmcr.layout import ManifestEntry, Record, Session, StoredPart, session_key
from aimodels.dmcr.metering import Metering
from aimodels.dmcr.principal import Access, OpenDoor, Principal
from aimodels.dmcr.repositories import _weight
from aimodels.dmcr.transfers import Transfers
from tests.kit import asgi
from tests.kit.dmcr import digest_of
from tests.kit.dmcrworld import MANIFEST, NAME, Replica, World, manifest_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.types import Message

DATA = bytes(range(256)) * 2
UPLOADS = f"/v2/{NAME}/blobs/uploads/"


class Narrow:
    """A door behind which everyone has the rights of one life of the repository."""

    def __init__(self, life: str) -> None:
        self._access = Access(NAME, frozenset({"pull", "push", "delete"}), life=life)

    async def authenticate(self, headers: Mapping[str, str]) -> Principal:
        del headers
        return Principal(name="pod", access=(self._access,))


def with_control(replica: Replica) -> App:
    transfers = Transfers(replica.swaps, replica.registry.repositories, Metering(replica.swaps).moved)
    control = Control(
        door=OpenDoor(),
        ownership=replica.ownership,
        repositories=replica.registry.repositories,
        sessions=replica.registry.sessions,
        transfers=transfers,
        metering=Metering(replica.swaps),
        desk=None,
    )

    async def broken(_: Request) -> None:
        raise ValueError("a fault of ours")

    routes = [*control.routes(), Route("/broken", broken)]
    return App(replica.registry, OpenDoor(), replica.ownership, routes)


def code(answer: asgi.Answer) -> str:
    found: str = json.loads(answer.body)["errors"][0]["code"]
    return found


@pytest.mark.parametrize(
    ("method", "target", "status", "expected"),
    [
        ("GET", "/broken", 500, "UNKNOWN"),
        ("GET", "/nothing", 404, "UNSUPPORTED"),
        ("DELETE", "/token", 405, "UNSUPPORTED"),
        ("DELETE", "/api/repositories/v1/../x!y", 400, "NAME_INVALID"),
        ("DELETE", f"/api/repositories/v1/{'a' * 2000}", 400, "NAME_INVALID"),
    ],
)
async def test_outside_v2_every_refusal_is_a_document(
    method: str, target: str, status: int, expected: str
) -> None:
    app = with_control(World().replica("one"))
    answer = await asgi.request(app, method, target, headers={"Host": "["})
    assert (answer.status, code(answer)) == (status, expected)
    assert answer.headers["content-type"] == "application/json"


async def test_a_path_that_is_no_text_names_nothing() -> None:
    world = World()
    answer = await world.do(world.replica("one"), "GET", "/v2/a%ff/tags/list")
    assert (answer.status, code(answer)) == (400, "NAME_INVALID")


async def test_a_manifest_of_endless_brackets_is_refused() -> None:
    world = World()
    body = b'{"schemaVersion":2,"x":' + b"[" * 200_000
    answer = await world.do(
        world.replica("one"), "PUT", f"/v2/{NAME}/manifests/t", body, Content_Type=MANIFEST
    )
    assert (answer.status, code(answer)) == (400, "MANIFEST_INVALID")


async def test_a_manifest_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "SMALL_BODY_SECONDS", 0)
    monkeypatch.setattr("webkit.limits.DRAIN_SECONDS", 0)
    world = World()
    replica = world.replica("one")
    call = asgi.Call([b"{"], whole=False)
    scope = asgi.scope_of("PUT", f"/v2/{NAME}/manifests/t", {"Transfer-Encoding": "chunked"})
    await world.network.finish(replica.app(scope, call.receive, call.send))
    answer = call.answer()
    assert answer is not None
    assert answer.status == 408


async def test_a_reader_that_leaves_its_own_body_out_is_not_waited_for_either() -> None:
    world = World()
    replica = world.replica("one")
    digest = digest_of(DATA)
    await world.do(replica, "POST", f"{UPLOADS}?digest={digest}", DATA)
    app = App(replica.registry, OpenDoor(), replica.ownership)
    app._stall_seconds = 0
    call = asgi.Call([], whole=False)

    async def stalled(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    scope = asgi.scope_of("GET", f"/v2/{NAME}/blobs/{digest}", {"Content-Length": "5"})
    with pytest.raises(TimeoutError):
        await world.network.finish(app(scope, call.receive, stalled))


async def test_a_push_that_waited_for_its_body_does_not_reach_the_next_life() -> None:
    world = World()
    replica, catalogue = world.replica("one"), world.replica("catalogue")
    repositories = catalogue.registry.repositories
    first: Record = await world.network.finish(repositories.open(NAME))
    app = App(replica.registry, Narrow(first.life), replica.ownership)
    body, go = manifest_of(b"{}"), asyncio.Event()
    call = asgi.Call([body], whole=True)

    async def receive() -> Message:
        await go.wait()
        return await call.receive()

    scope = asgi.scope_of("PUT", f"/v2/{NAME}/manifests/upload", {"Content-Length": str(len(body))})
    scope["headers"].append((b"content-type", MANIFEST.encode()))
    push = asyncio.ensure_future(app(scope, receive, call.send))
    await world.network.rest()
    while world.network.of("one"):
        await world.network.execute(world.network.of("one")[0])
    await world.network.finish(repositories.close(NAME))
    await world.network.finish(repositories.open(NAME))
    go.set()
    await world.network.finish(push)
    answer = call.answer()
    assert answer is not None
    assert (answer.status, code(answer)) == (404, "NAME_UNKNOWN")
    assert not world.record().tags


@pytest.mark.parametrize("thing", ["manifests/t", f"manifests/{digest_of(b'x')}", f"blobs/{digest_of(DATA)}"])
async def test_the_right_to_delete_ends_with_the_life_that_it_was_given_for(thing: str) -> None:
    world = World()
    replica = world.replica("one")
    await world.do(replica, "POST", f"{UPLOADS}?digest={digest_of(DATA)}", DATA)
    answer = await world.do(
        replica, "PUT", f"/v2/{NAME}/manifests/t", manifest_of(b"{}"), Content_Type=MANIFEST
    )
    assert answer.status == 201
    app = App(replica.registry, Narrow("another life"), replica.ownership)
    call = asgi.Call([], whole=True)
    scope = asgi.scope_of("DELETE", f"/v2/{NAME}/{thing}", {})
    await world.network.finish(app(scope, call.receive, call.send))
    refused = call.answer()
    assert refused is not None
    assert (refused.status, code(refused)) == (404, "NAME_UNKNOWN")
    assert world.record().tags


@pytest.mark.parametrize("announced", [1 << 42, 10_000 * (5 << 30)])
async def test_a_part_that_no_memory_holds_is_refused_at_the_start(announced: int) -> None:
    world = World()
    replica = world.replica("one")
    answer = await world.do(replica, "POST", UPLOADS, Dmcr_Length=str(announced))
    assert (answer.status, code(answer)) == (413, "SIZE_INVALID")
    fits = parts.LARGEST * 9000
    assert (await world.do(replica, "POST", UPLOADS, Dmcr_Length=str(fits))).status == 202


async def test_a_push_in_one_request_that_is_finished_already_writes_no_byte_again() -> None:
    world = World()
    replica = world.replica("one")
    target = f"{UPLOADS}?digest={digest_of(DATA)}"
    assert (await world.do(replica, "POST", target, DATA, dmcr_resume_key="k")).status == 201
    before = len(world.network.schedule)
    again = await world.do(replica, "POST", target, DATA, dmcr_resume_key="k")
    assert again.status == 201
    assert not [line for line in world.network.schedule[before:] if " put " in line and "data/" in line]


def test_what_a_record_weighs_counts_what_came_from_outside() -> None:
    record = Record(name=NAME, life="l", owner="o", state="open")
    entry = ManifestEntry(key="k", media_type="m", size=1, at=0, blobs=0, annotations={"a": "x" * 4_000_000})
    assert _weight(record) < 1000
    assert _weight(Record(name=NAME, life="l", owner="o", state="open", manifests={"d": entry})) > 4_000_000


async def test_the_end_of_a_transfer_does_not_look_at_one_session_after_another() -> None:
    world = World()
    replica = world.replica("one")
    for _ in range(40):
        assert (await world.do(replica, "POST", UPLOADS)).status == 202
    ending = asyncio.create_task(replica.registry.sessions.void_transfer("t"))
    await world.network.run_until("one", "get", "uploads/")
    assert len(world.network.of("one")) == 32
    await world.network.finish(ending)


async def test_bytes_behind_the_last_part_are_no_wrong_digest() -> None:
    world = World()
    replica = world.replica("one")
    await world.do(replica, "POST", UPLOADS)
    sid = "a" * 32
    ended = Session(
        life=world.record().life,
        repo=NAME,
        key="",
        attempt=1,
        state="open",
        at=0,
        data="d" * 32,
        upload="u",
        plan=parts.plan_for(None),
        parts=(StoredPart(1, 10, "etag"),),
        offset=10,
    )
    world.write(session_key(sid), ended)
    answer = await world.do(replica, "PATCH", f"{UPLOADS}{sid}.1", DATA)
    assert (answer.status, code(answer)) == (400, "BLOB_UPLOAD_INVALID")
