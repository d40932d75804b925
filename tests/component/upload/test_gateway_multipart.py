"""Multipart clients of the gateway: parts in any order and at once, restarts, URLs that carry permission."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.gatewayworld import Answer, Ticket, World, gguf

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.asyncio(loop_scope="session")

MIB = 1 << 20
PART = 5 * MIB
NAME = "model.gguf"


class Client:
    """Sends one file in parts, as clients of presigned URLs do."""

    def __init__(self, world: World, ticket: Ticket, content: bytes) -> None:
        self.world = world
        self.ticket = ticket
        self.content = content
        self.count = -(-len(content) // PART)

    async def call(self, name: str, body: Mapping[str, Any] | None = None) -> Answer:
        sent = json.dumps(body or {})
        return await self.world.curl(self.ticket, "-X", "POST", "-d", sent, path=f"/{name}")

    async def announce(self) -> Answer:
        chunk = base64.b64encode(self.content[:4096]).decode()
        probed = await self.call("probe", {"fileName": NAME, "sizeBytes": len(self.content), "chunk": chunk})
        assert probed.status == 200, probed.body
        return await self.call("init", {"fileName": NAME, "partSizeBytes": PART})

    async def urls(self, *numbers: int) -> dict[int, str]:
        answer = await self.call("parts", {"partNumbers": numbers})
        given: Any = answer.json()["parts"]
        return {part["partNumber"]: part["url"] for part in given}

    async def put(self, number: int, url: str) -> tuple[int, str]:
        """Send a part to its URL, without the token."""
        start = (number - 1) * PART
        path = self.world.file(f"{self.ticket.session}.{number}", self.content[start : start + PART])
        bare = Ticket(self.ticket.session, url, "", self.ticket.repository)
        answer = await self.world.curl(bare, "-T", str(path))
        return answer.status, answer.headers.get("etag", "")

    async def complete(self, etags: Mapping[int, str]) -> Answer:
        parts = [{"partNumber": number, "etag": etags[number]} for number in sorted(etags)]
        return await self.call("complete", {"parts": parts})


async def test_parts_sent_at_once_and_backwards_make_the_file(world: World) -> None:
    client = Client(world, await world.allow(), gguf(4 * PART + 12345))
    first, again = (
        await client.announce(),
        await client.call("init", {"fileName": NAME, "partSizeBytes": PART}),
    )
    assert (first.status, again.status) == (201, 200)
    urls = await client.urls(*range(1, client.count + 1))

    sent = await asyncio.gather(*(client.put(number, urls[number]) for number in reversed(urls)))
    etags = dict(zip(reversed(urls), (etag for _, etag in sent), strict=True))
    answer = await client.complete(etags)

    assert {status for status, _ in sent} == {200}
    assert (answer.status, answer.json()["digest"]) == (
        201,
        "sha256:" + hashlib.sha256(client.content).hexdigest(),
    )
    layer = json.loads((await world.received(client.ticket)).body)["layers"][0]
    assert layer["annotations"] == {"org.cncf.model.filepath": NAME}


async def test_a_restart_costs_no_part(world: World) -> None:
    client = Client(world, await world.allow(), gguf(3 * PART))
    await client.announce()
    urls = await client.urls(1, 2, 3)
    etags = {1: (await client.put(1, urls[1]))[1]}
    await world.gateway.end(signal.SIGKILL)
    await world.gateway.start()

    assert (await client.put(2, urls[2]))[0] == 409
    told = await client.announce()
    assert told.json()["uploadedParts"] == [{"partNumber": 1, "etag": etags[1].strip('"')}]  # type: ignore[comparison-overlap]
    etags |= {number: (await client.put(number, urls[number]))[1] for number in (2, 3)}
    assert (await client.complete(etags)).status == 201


async def test_a_part_sent_again_changes_nothing(world: World) -> None:
    client = Client(world, await world.allow(), gguf(2 * PART))
    await client.announce()
    urls = await client.urls(1, 2)
    etags = {number: (await client.put(number, urls[number]))[1] for number in (1, 1, 2, 1)}

    status = await world.curl(client.ticket)
    assert [part["partNumber"] for part in json.loads(status.body)["multipart"]["uploadedParts"]] == [1, 2]
    assert (
        (await client.complete(etags)).json()["digest"].endswith(hashlib.sha256(client.content).hexdigest())
    )


async def test_asking_how_far_it_is_disturbs_no_part_on_its_way(world: World) -> None:
    client = Client(world, await world.allow(), gguf(PART))
    await client.announce()
    path = world.file("only", client.content)
    sending = await world.start_curl(client.ticket, "--limit-rate", "2M", "-T", str(path), path="/parts/1")
    await world.until_received(MIB)

    status, again = await world.curl(client.ticket), await client.announce()
    sent = await world.answer(sending)

    assert (status.status, again.status, sent.status) == (200, 200, 200)
    assert (await client.complete({1: sent.headers["etag"]})).status == 201


async def test_completing_needs_every_part(world: World) -> None:
    client = Client(world, await world.allow(), gguf(2 * PART))
    await client.announce()
    urls = await client.urls(1)
    etags = {1: (await client.put(1, urls[1]))[1]}

    missing = await client.complete(etags)
    invented = await client.complete({**etags, 2: f"2-{2 * PART:x}"})

    assert (missing.status, missing.json()["reason"]) == (400, "PartMismatch")
    assert (invented.status, invented.json()["reason"]) == (409, "Incomplete")


async def test_urls_of_parts_are_for_one_part_of_one_session(world: World) -> None:
    client = Client(world, await world.allow(), gguf(2 * PART))
    other = Client(world, await world.allow(), gguf(2 * PART))
    await client.announce()
    await other.announce()
    url = (await client.urls(1))[1]

    stolen = url.replace(client.ticket.session, other.ticket.session)
    assert [
        (await client.put(1, one))[0] for one in (url.replace("parts/1", "parts/2"), stolen, url[:-2])
    ] == [
        401,
        401,
        401,
    ]
    strange = f"{url.partition('?')[0]}?until={'9' * 5000}&signature=x"
    assert (await client.put(1, strange))[0] == 401
    assert (await client.put(1, url))[0] == 200


async def test_what_was_not_announced_is_refused(world: World) -> None:
    client = Client(world, await world.allow(), gguf(2 * PART))
    assert (await client.call("init", {"fileName": NAME})).status == 409
    assert (await client.call("parts", {"partNumbers": [1]})).status == 409
    junk = base64.b64encode(bytes(512)).decode()
    refused = await client.call("probe", {"fileName": "a.rar", "sizeBytes": 10, "chunk": junk})
    unsized = await client.call("probe", {"fileName": NAME, "chunk": junk})
    assert (refused.status, refused.json()["reason"], unsized.status) == (400, "NotAModel", 400)


async def test_an_aborted_upload_can_be_begun_anew(world: World) -> None:
    client = Client(world, await world.allow(), gguf(2 * PART))
    await client.announce()
    await client.put(1, (await client.urls(1))[1])

    assert (await client.call("abort")).status == 204
    assert (await world.head(client.ticket)).headers["upload-offset"] == "0"
    path = world.file("whole.gguf", client.content)
    assert (await world.curl(client.ticket, "-T", str(path))).status == 201
