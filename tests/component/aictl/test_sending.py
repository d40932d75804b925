"""An upload goes on where the gateway is, ends with the right bytes or with words, and never mixes."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

from aictl import sending, uploading
from aictl.exits import Exit, Failure
from aictl.prefixes import Prefixes
from opskit.retry import Backoff
from tests.kit.gatewayworld import Ticket, World, gguf
from tests.kit.httpproxy import HttpProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.asyncio(loop_scope="session")

SIZE = 5_000_000
CONTENT = gguf(SIZE)
AT_ONCE = Backoff(first=0.0, most=0.01)


@dataclass
class Sent:
    """A sender, the proxy between it and the gateway, and what it told."""

    sender: sending.Sender
    proxy: HttpProxy
    world: World
    ticket: Ticket
    notes: list[str] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)

    @property
    def ranges(self) -> list[str | None]:
        return [one.range for one in self.proxy.asked("PUT")]

    async def stored(self) -> bytes:
        """Return the bytes that were received as a whole file."""
        layer = json.loads((await self.world.received(self.ticket)).body)["layers"][0]
        return await self.world.stored(self.ticket, layer["digest"])


@asynccontextmanager
async def _sender(
    world: World,
    file: Path,
    *,
    held: bytes = b"",
    token: str = "",
    patience: float = 30.0,
    backoff: Backoff = AT_ONCE,
) -> AsyncIterator[Sent]:
    """Return the sender of a file to an upload of which the gateway holds some bytes."""
    ticket = await world.allow()
    if held:
        spoken = f"Content-Range: bytes 0-{len(held) - 1}/*"
        answer = await world.curl(ticket, "-H", spoken, "-T", str(world.file("held", held)))
        assert answer.status == 202, answer
    trust = ssl.create_default_context(cafile=world.gateway.ca_file)
    async with HttpProxy(world.gateway.url, trust=trust) as proxy, aiohttp.ClientSession() as web:
        notes: list[str] = []
        moved: list[int] = []
        sender = sending.Sender(
            web,
            f"{proxy.url}/v1/upload/{ticket.session}",
            token or ticket.token,
            Prefixes(file),
            filename=file.name,
            progress=sending.Progress(moved=moved.append, noted=notes.append),
            patience=patience,
            backoff=backoff,
        )
        yield Sent(sender, proxy, world, ticket, notes, moved)


@pytest.fixture
def world(gateway_world: World) -> World:
    return gateway_world


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a model.gguf"
    path.write_bytes(CONTENT)
    return path


def refusal(status: int, reason: str, message: str, next_step: str = "") -> tuple[int, bytes]:
    """Return an answer in the form of the gateway's refusals."""
    return status, json.dumps({"reason": reason, "message": message, "nextStep": next_step}).encode()


async def test_a_file_arrives_whole_under_its_name(world: World, file: Path) -> None:
    async with _sender(world, file) as sent:
        receipt = await sent.sender.send()
        assert await sent.stored() == CONTENT
        layer = json.loads((await world.received(sent.ticket)).body)["layers"][0]
    assert (receipt.size_bytes, sent.ranges, sent.moved[-1]) == (SIZE, [None], SIZE)
    assert layer["annotations"] == {"org.cncf.model.filepath": "a model.gguf"}


async def test_after_a_cut_it_goes_on_where_the_gateway_is(world: World, file: Path) -> None:
    async with _sender(world, file, backoff=sending.BACKOFF) as sent:
        sent.proxy.cut_request("PUT", "", 1_234_567)
        sent.proxy.cut_request("PUT", "", 2_000_000)
        await sent.sender.send()
        assert await sent.stored() == CONTENT
    starts = [int(one.removeprefix("bytes ").partition("-")[0]) if one else 0 for one in sent.ranges]
    assert 0 == starts[0] < starts[1] < starts[2] <= 3_234_567


async def test_who_comes_back_before_the_gateway_knows_of_the_cut_gets_through(
    world: World, file: Path
) -> None:
    for _ in range(5):
        async with _sender(world, file) as sent:
            for after in (1_234_567, 2_000_000, 400_000):
                sent.proxy.cut_request("PUT", "", after)
            await sent.sender.send()
            assert await sent.stored() == CONTENT


async def test_an_own_request_that_comes_late_takes_nothing_over(world: World, file: Path) -> None:
    async with _sender(world, file) as sent:
        sent.proxy.cut_request("PUT", "", 1_234_567)
        sent.proxy.reply("PUT", "", *refusal(409, "TakenOver", "a newer upload goes on"))
        await sent.sender.send()
        assert await sent.stored() == CONTENT


async def test_one_late_request_excuses_one_refusal(world: World, file: Path) -> None:
    async with _sender(world, file) as sent:
        sent.proxy.cut_request("PUT", "", 1_234_567)
        for _ in range(2):
            sent.proxy.reply("PUT", "", *refusal(409, "TakenOver", "a newer upload goes on"))
        with pytest.raises(Failure, match="A newer upload goes on"):
            await sent.sender.send()


async def test_a_newer_upload_of_another_file_is_not_taken_back(world: World, file: Path) -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with _sender(world, file, held=b"GGUF" + bytes(2_000_000)) as sent:
        sent.proxy.handle("PUT", "", broken)
        sent.proxy.reply("PUT", "", *refusal(409, "TakenOver", "a newer upload goes on"))
        with pytest.raises(Failure, match="A newer upload goes on"):
            await sent.sender.send()


async def test_patience_counts_from_the_first_failure_not_from_the_beginning(
    world: World, file: Path
) -> None:
    async with _sender(world, file, patience=0.0) as sent:
        sent.proxy.cut_request("PUT", "", 1_234_567)
        assert (await sent.sender.send()).size_bytes == SIZE


async def test_another_run_goes_on_behind_the_bytes_of_the_same_file(world: World, file: Path) -> None:
    async with _sender(world, file, held=CONTENT[:3_000_000]) as sent:
        await sent.sender.send()
        assert await sent.stored() == CONTENT
    assert sent.ranges == ["bytes 3000000-4999999/5000000"]


@pytest.mark.parametrize("tells_digest", [True, False])
async def test_bytes_of_an_unknown_or_another_file_are_not_continued(
    world: World, file: Path, *, tells_digest: bool
) -> None:
    async with _sender(world, file, held=gguf(1000)) as sent:
        if not tells_digest:
            sent.proxy.reply("HEAD", "", 200, headers={"Upload-Offset": "1000"})
        await sent.sender.send()
        assert await sent.stored() == CONTENT
    assert sent.ranges == [None]
    assert sent.notes == ["the gateway holds a part of another file, starting over"]


async def test_more_bytes_than_the_file_has_are_not_continued(world: World, file: Path) -> None:
    async with _sender(world, file, held=gguf(6_000_000)) as sent:
        await sent.sender.send()
        assert await sent.stored() == CONTENT


async def test_everything_there_but_unfinished_is_finished(world: World, file: Path) -> None:
    async with _sender(world, file, held=CONTENT) as sent:
        await sent.sender.send()
        assert await sent.stored() == CONTENT
    assert sent.ranges == ["bytes 5000000-5000000/5000000"]


async def test_a_session_that_has_everything_is_an_end(world: World, file: Path) -> None:
    async with _sender(world, file) as sent:
        await sent.sender.send()
        assert (await sent.sender.send()).size_bytes == SIZE
    assert sent.ranges == [None]


@pytest.mark.parametrize(
    "answer", [refusal(416, "OffsetMismatch", "elsewhere"), refusal(408, "Stalled", "silence")]
)
async def test_where_to_go_on_is_asked_again(world: World, file: Path, answer: tuple[int, bytes]) -> None:
    async with _sender(world, file, held=CONTENT[:1_000_000]) as sent:
        sent.proxy.reply("PUT", "", *answer)
        await sent.sender.send()
        assert await sent.stored() == CONTENT
    assert len(sent.proxy.asked("HEAD")) == 2


async def test_a_file_that_was_received_meanwhile_is_an_end(world: World, file: Path) -> None:
    async with _sender(world, file) as sent:
        sent.proxy.reply("PUT", "", *refusal(409, "UploadReceived", "it is here"))
        assert (await sent.sender.send()).size_bytes == SIZE


async def test_a_busy_gateway_is_asked_again(world: World, file: Path) -> None:
    async with _sender(world, file) as sent:
        sent.proxy.reply("PUT", "", *refusal(503, "Busy", "come back"))
        sent.proxy.fail("PUT", "", 429, Retry_After="0")
        await sent.sender.send()
        assert await sent.stored() == CONTENT


async def test_a_busy_gateway_is_one_that_answers(world: World, file: Path) -> None:
    async with _sender(world, file) as sent:
        sent.proxy.fail("HEAD", "", 503)
        assert await uploading._answers(sent.sender)
        await sent.proxy.__aexit__()
        assert not await uploading._answers(sent.sender)


async def test_without_progress_it_gives_up_and_says_how_to_go_on(world: World, file: Path) -> None:
    async with _sender(world, file, patience=0.0) as sent:
        for _ in range(50):
            sent.proxy.reply("PUT", "", *refusal(503, "Busy", "the store is full of other work"))
        with pytest.raises(Failure, match="Run the same command again") as caught:
            await sent.sender.send()
    assert caught.value.code is Exit.FAILED
    assert "the store is full of other work" in caught.value.message


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (refusal(409, "TakenOver", "a newer upload goes on", "Wait."), Exit.FAILED),
        (refusal(507, "StorageFull", "no room", "Ask."), Exit.IMPOSSIBLE),
    ],
)
async def test_a_refusal_is_told_in_the_gateway_s_words(
    world: World, file: Path, answer: tuple[int, bytes], code: Exit
) -> None:
    async with _sender(world, file) as sent:
        sent.proxy.drip("PUT", "", *answer)
        with pytest.raises(Failure, match="The gateway refuses the upload") as caught:
            await sent.sender.send()
    assert caught.value.code is code
    assert json.loads(answer[1])["message"] in caught.value.message.lower()


@pytest.mark.parametrize("content", [b"", b"no model" * 100])
async def test_what_is_no_model_is_told_in_the_gateway_s_words(
    world: World, tmp_path: Path, content: bytes
) -> None:
    async with _sender(world, world.file("junk", content)) as sent:
        with pytest.raises(Failure, match="The gateway refuses the upload") as caught:
            await sent.sender.send()
    assert caught.value.code is Exit.USAGE


async def test_a_wrong_token_ends_before_any_byte_is_sent(world: World, file: Path) -> None:
    async with _sender(world, file, token="another") as sent:
        with pytest.raises(Failure, match="token is not accepted") as caught:
            await sent.sender.send()
    assert caught.value.code is Exit.DENIED
    assert sent.ranges == []


@pytest.mark.parametrize("gone", [True, False])
async def test_a_file_that_changes_meanwhile_is_not_sent_as_a_mixture(
    world: World, file: Path, *, gone: bool
) -> None:
    async def change() -> None:
        if gone:
            await asyncio.to_thread(file.unlink)
        else:
            await asyncio.to_thread(file.write_bytes, gguf(SIZE))

    async with _sender(world, file) as sent:
        sent.proxy.let_pass("HEAD", "", change)
        with pytest.raises(Failure, match="was changed or removed"):
            await sent.sender.send()
        assert (await world.head(sent.ticket)).status == 200


async def test_a_receipt_that_comes_in_pieces_is_read_whole(world: World, file: Path) -> None:
    receipt = {"digest": await Prefixes(file).digest(SIZE), "sizeBytes": SIZE}
    async with _sender(world, file) as sent:
        sent.proxy.drip("PUT", "", 201, json.dumps(receipt).encode())
        assert (await sent.sender.send()).size_bytes == SIZE


async def test_a_receipt_for_other_bytes_is_no_success(world: World, file: Path) -> None:
    async with _sender(world, file) as sent:
        sent.proxy.reply("PUT", "", 201, b'{"digest":"sha256:00","sizeBytes":5000000}')
        with pytest.raises(Failure, match="What arrived is not the file"):
            await sent.sender.send()
