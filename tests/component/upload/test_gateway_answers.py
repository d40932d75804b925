"""What the gateway answers in every situation of the reference, and that its tokens are checked well."""

from __future__ import annotations

import base64
import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from aimodels.upload.access import Door
from aimodels.upload.app import App
from aimodels.upload.lookups import FRESH_SECONDS
from aimodels.upload.receiving import Receiver
from modelio.registry import Patience, RegistryClient
from opskit.clock import ManualClock
from tests.kit import asgi
from tests.kit.httpproxy import HttpProxy
from tests.kit.vectors import cases
from webkit.problems import SAFE_HEADERS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from tests.kit.asgi import Answer
    from tests.kit.gatewayworld import Ticket
    from tests.kit.gatewayworld import World as Running

pytestmark = pytest.mark.asyncio(loop_scope="session")

GGUF = b"GGUF" + bytes(600)
_SESSIONS = "/blobs/uploads/"


class World:
    """A gateway in this process, before the running registry, with a proxy between them that can fail."""

    def __init__(self, running: Running, proxy: HttpProxy, client: RegistryClient, ticket: Ticket) -> None:
        self.catalogue = running.catalogue
        self.proxy = proxy
        self.ticket = ticket
        self.clock = ManualClock()
        door = Door(client, running.gateway.token_file, self.clock)
        self.app = App(door, Receiver(), self.clock, idle_seconds=30)

    async def call(
        self,
        method: str,
        path: str = "",
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> Answer:
        url = f"/v1/upload/{self.ticket.session}{path}"
        sent = {"Authorization": f"Bearer {self.ticket.token}"} if headers is None else headers
        return await asgi.request(self.app, method, url, body, headers={**sent, **more})

    async def put(self) -> Answer:
        return await self.call("PUT", body=GGUF)

    async def offset(self) -> int:
        return int((await self.call("HEAD")).headers["upload-offset"])

    async def post(self, name: str, **body: Any) -> Answer:
        return await self.call("POST", f"/{name}", json.dumps(body).encode())

    async def probed(self, name: str = "m.gguf") -> Answer:
        return await self.post(
            "probe", fileName=name, sizeBytes=len(GGUF), chunk=base64.b64encode(GGUF).decode()
        )


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


def refusal(code: str) -> bytes:
    return json.dumps({"errors": [{"code": code, "message": "on purpose"}]}).encode()


def told(answer: Answer) -> tuple[int, str]:
    return answer.status, json.loads(answer.body)["reason"]


async def wrong_token(world: World) -> Answer:
    return await world.call("PUT", body=GGUF, headers={"Authorization": "Bearer wrong"})


async def expired(world: World) -> Answer:
    await world.call("HEAD")
    await world.catalogue.revoke_transfer(world.ticket.session)
    await world.clock.advance(FRESH_SECONDS + 1)
    return await world.put()


async def closed(world: World) -> Answer:
    await world.put()
    return await world.put()


async def too_big(world: World) -> Answer:
    world.proxy.fail("POST", _SESSIONS, 507)
    return await world.put()


async def probe_without_size(world: World) -> Answer:
    return await world.post("probe", fileName="m.gguf", chunk="R0dVRg==")


async def begun(world: World) -> Answer:
    await world.probed()
    return await world.post("init", fileName="m.gguf")


async def begun_again(world: World) -> Answer:
    await begun(world)
    return await world.post("init", fileName="m.gguf")


async def parts_asked_for(world: World) -> Answer:
    await begun(world)
    return await world.post("parts", partNumbers=[1])


async def completed(world: World) -> Answer:
    await begun(world)
    part = await world.call("PUT", "/parts/1", GGUF)
    assert part.status == 200
    return await world.post("complete", parts=[{"partNumber": 1, "etag": part.headers["etag"]}])


async def completed_without_a_part(world: World) -> Answer:
    await begun(world)
    return await world.post("complete", parts=[])


#: case -> how it comes about
SITUATIONS: dict[str, Callable[[World], Awaitable[Answer]]] = {
    "dp-upload-unknown-token": wrong_token,
    "dp-upload-expired": expired,
    "dp-upload-closed": closed,
    "dp-upload-probe-no-size": probe_without_size,
    "dp-upload-too-big": too_big,
    "dp-upload-size-mismatch": completed_without_a_part,
    "dp-upload-unsupported": lambda world: world.probed("a.rar"),
    "dp-upload-method": lambda world: world.call("PATCH", body=b"x"),
    "dp-upload-put-ok": lambda world: world.put(),
    "dp-upload-probe-ok": lambda world: world.probed(),
    "dp-upload-init-ok": begun,
    "dp-upload-init-again": begun_again,
    "dp-upload-parts-ok": parts_asked_for,
    "dp-upload-complete-ok": completed,
}


@pytest.mark.parametrize("case", cases("delivery-and-publish.json", "upload-status"))
async def test_status_codes_of_the_reference(world: World, case: dict[str, Any]) -> None:
    answer = await SITUATIONS[case["id"]](world)
    assert answer.status == case["expected"]["http"]
    assert {name: answer.headers[name] for name in SAFE_HEADERS} == SAFE_HEADERS
    if answer.status >= 400:
        assert all(json.loads(answer.body)[key] for key in ("reason", "message", "nextStep"))


@pytest.mark.parametrize(
    ("request_", "status", "code", "expected"),
    [
        (("PATCH", _SESSIONS), 409, "BLOB_UPLOAD_INVALID", (409, "TakenOver")),
        (("PATCH", _SESSIONS), 404, "BLOB_UPLOAD_UNKNOWN", (409, "TakenOver")),
        (("PATCH", _SESSIONS), 403, "DENIED", (410, "UploadEnded")),
        (("POST", _SESSIONS), 503, "UNAVAILABLE", (503, "StorageUnavailable")),
        (("PATCH", _SESSIONS), 507, "", (507, "StorageFull")),
        (("PATCH", _SESSIONS), 413, "", (413, "TooLarge")),
        (("POST", "/token"), 401, "UNAUTHORIZED", (503, "StorageUnavailable")),
    ],
)
async def test_what_fails_behind_the_gateway_is_never_the_users_fault(
    world: World, request_: tuple[str, str], status: int, code: str, expected: tuple[int, str]
) -> None:
    for _ in range(2):  # a grant that is refused is renewed once
        world.proxy.reply(*request_, status, refusal(code))
    assert told(await world.put()) == expected


async def test_a_model_deleted_meanwhile_is_an_upload_that_has_ended(world: World) -> None:
    await world.call("HEAD")
    await world.catalogue.close_repository(world.ticket.repository)
    assert told(await world.put()) == (410, "UploadEnded")


@pytest.mark.parametrize(("status", "code"), [(409, "BLOB_UPLOAD_INVALID"), (404, "BLOB_UPLOAD_UNKNOWN")])
async def test_409_to_a_head_means_received_and_nothing_else(world: World, status: int, code: str) -> None:
    world.proxy.reply("GET", _SESSIONS, status, refusal(code))
    answer = await world.call("HEAD")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    await world.put()
    assert (await world.call("HEAD")).status == 409


@pytest.mark.parametrize(
    ("query", "headers", "name"),
    [
        ("?filename=a.gguf", {"X-Upload-Filename": "b.gguf"}, "a.gguf"),
        ("", {"X-Upload-Filename": "b.gguf", "Content-Disposition": 'x; filename="c.gguf"'}, "b.gguf"),
        ("", {"Content-Disposition": 'attachment; filename="c.gguf"'}, "c.gguf"),
        ("?filename=a%20b.gguf", {}, "a b.gguf"),
        ("", {}, None),
    ],
)
async def test_the_order_in_which_a_name_is_looked_for(
    world: World, query: str, headers: dict[str, str], name: str | None
) -> None:
    assert (await world.call("PUT", query, GGUF, more=headers)).status == 201
    manifest = await world.catalogue.get_manifest(world.ticket.repository, "upload")
    layer = json.loads(manifest.body)["layers"][0]
    assert layer.get("annotations", {}).get("org.cncf.model.filepath") == name


@pytest.mark.parametrize("name", ["..%2Fa.gguf", "a%00.gguf", "%2e%2e", "a%0A.gguf", "x" * 300 + ".gguf"])
async def test_names_that_are_tricks(world: World, name: str) -> None:
    assert told(await world.call("PUT", f"?filename={name}", GGUF)) == (400, "InvalidFileName")
    assert world.proxy.asked("PATCH") == []


async def test_only_the_token_itself_opens(world: World) -> None:
    token = world.ticket.token
    wrong = ("", "Bearer", "Bearer ", f"Basic {token}", token, f"Bearer {token}x", "Bearer " + "x" * 600)
    for headers in ({}, *({"Authorization": one} for one in wrong)):
        for method in ("HEAD", "GET", "PUT"):
            assert (await world.call(method, headers=headers)).status == 401, headers
    assert (await world.call("HEAD", headers={"authorization": f"bearer {token}"})).status == 200


@pytest.mark.parametrize("session", ["UPPER", "upload-x_y", "-a", "a%20b"])
async def test_what_cannot_be_a_session_is_not_asked_for(world: World, session: str) -> None:
    shown = {"Authorization": f"Bearer {world.ticket.token}"}
    answer = await asgi.request(world.app, "PUT", f"/v1/upload/{session}", GGUF, headers=shown)
    assert (answer.status, world.proxy.seen) == (401, [])


async def test_a_flood_of_wrong_tokens_asks_the_registry_once(world: World) -> None:
    for _ in range(20):
        await world.call("PUT", body=GGUF, headers={"Authorization": "Bearer wrong"})
    assert len(world.proxy.seen) == 1


async def test_starting_over_keeps_what_is_here_until_the_new_file_looks_like_a_model(world: World) -> None:
    spoken = {"Content-Range": f"bytes 0-{len(GGUF) - 1}/9999"}
    assert (await world.call("PUT", body=GGUF, more=spoken)).status == 202
    assert told(await world.call("PUT", body=bytes(600))) == (400, "NotAModel")
    assert await world.offset() == len(GGUF)
    answer = await world.call("PUT", body=b"GGUF" + bytes(700))
    assert (answer.status, json.loads(answer.body)["sizeBytes"]) == (201, 704)


async def test_a_lost_last_answer_is_asked_for_again(world: World) -> None:
    spoken = {"Content-Range": f"bytes 0-{len(GGUF) - 1}/*"}
    assert (await world.call("PUT", body=GGUF, more=spoken)).status == 202
    assert await world.offset() == len(GGUF)
    whole = {"Content-Range": f"bytes */{len(GGUF)}", "Content-Length": "0"}
    finished = await world.call("PUT", more=whole)
    assert (finished.status, json.loads(finished.body)["sizeBytes"]) == (201, len(GGUF))


async def test_a_session_tells_its_state(world: World) -> None:
    await world.probed()
    await world.post("init", fileName="m.gguf")
    state = json.loads((await world.call("GET")).body)
    assert {key: state[key] for key in ("mode", "phase", "partURLTTLSeconds", "minimumPartSizeBytes")} == {
        "mode": "direct-multipart-staging",
        "phase": "issued",
        "partURLTTLSeconds": 900,
        "minimumPartSizeBytes": 5 << 20,
    }
    assert state["maximumMultipartPartCount"] == 10_000
    assert state["probe"] == {"fileName": "m.gguf", "resolvedInputFormat": "GGUF"}
    assert state["multipart"]["uploadedParts"] == []


async def test_a_parts_url_lasts_a_quarter_of_an_hour(world: World) -> None:
    await world.probed()
    await world.post("init", fileName="m.gguf")
    url = json.loads((await world.post("parts", partNumbers=[1])).body)["parts"][0]["url"]
    path = url[url.index("/parts/") :]
    await world.clock.advance(901)
    assert (await world.call("PUT", path, GGUF, headers={})).status == 401
    url = json.loads((await world.post("parts", partNumbers=[1])).body)["parts"][0]["url"]
    assert (await world.call("PUT", url[url.index("/parts/") :], GGUF, headers={})).status == 200


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"fileName": 3}', b"\xff", b"{}" + b" " * (3 << 20), b'{"x":' + b"[" * 9999]
)
async def test_bodies_that_are_no_requests(world: World, body: bytes) -> None:
    answer = await world.call("POST", "/probe", body)
    assert answer.status == (413 if len(body) > 1 << 20 else 400)
