"""An upload goes on where the gateway is, ends with the right bytes or with words, and never mixes."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp
import pytest

from aictl import sending
from aictl.exits import Exit, Failure
from aictl.prefixes import Prefixes
from opskit.retry import Backoff
from tests.kit import gateway
from tests.kit.gateway import Gateway, refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

CONTENT = os.urandom(5_000_000)
AT_ONCE = Backoff(first=0.0, most=0.0)


@dataclass
class Sent:
    sender: sending.Sender
    notes: list[str] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)


@asynccontextmanager
async def _sender(file: Path, to: Gateway, *, patience: float = 30.0) -> AsyncIterator[Sent]:
    notes: list[str] = []
    moved: list[int] = []
    async with gateway.serving(to), aiohttp.ClientSession() as web:
        sender = sending.Sender(
            web,
            to.url,
            "right",
            Prefixes(file),
            filename=file.name,
            progress=sending.Progress(moved=moved.append, noted=notes.append),
            patience=patience,
            backoff=AT_ONCE,
        )
        yield Sent(sender, notes, moved)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a model.gguf"
    path.write_bytes(CONTENT)
    return path


async def test_a_file_arrives_whole_under_its_name(file: Path) -> None:
    to = Gateway()
    async with _sender(file, to) as sent:
        receipt = await sent.sender.send()
    assert to.held == CONTENT
    assert (receipt.size_bytes, to.filename, to.ranges) == (5_000_000, "a model.gguf", [""])
    assert sent.moved[-1] == 5_000_000


async def test_an_empty_file_is_sent_too(tmp_path: Path) -> None:
    empty = tmp_path / "empty.gguf"
    empty.touch()
    to = Gateway()
    async with _sender(empty, to) as sent:
        assert (await sent.sender.send()).size_bytes == 0


async def test_after_a_cut_it_goes_on_where_the_gateway_is(file: Path) -> None:
    to = Gateway(faults=[1_234_567, 2_000_000])
    async with _sender(file, to) as sent:
        await sent.sender.send()
    assert to.held == CONTENT
    assert to.ranges == ["", "bytes 1234567-4999999/5000000", "bytes 3234567-4999999/5000000"]
    assert len(sent.notes) == 2


async def test_another_run_goes_on_behind_the_bytes_of_the_same_file(file: Path) -> None:
    to = Gateway(held=bytearray(CONTENT[:3_000_000]))
    async with _sender(file, to) as sent:
        await sent.sender.send()
    assert to.held == CONTENT
    assert to.ranges == ["bytes 3000000-4999999/5000000"]


@pytest.mark.parametrize("tells_digest", [True, False])
async def test_bytes_of_an_unknown_or_another_file_are_not_continued(
    file: Path, *, tells_digest: bool
) -> None:
    to = Gateway(held=bytearray(b"something else"), tells_digest=tells_digest)
    async with _sender(file, to) as sent:
        await sent.sender.send()
    assert to.held == CONTENT
    assert to.ranges == [""]
    assert sent.notes == ["the gateway holds a part of another file, starting over"]


async def test_more_bytes_than_the_file_has_are_not_continued(file: Path) -> None:
    to = Gateway(held=bytearray(6_000_000))
    async with _sender(file, to) as sent:
        await sent.sender.send()
    assert to.held == CONTENT


async def test_everything_there_but_unfinished_is_finished(file: Path) -> None:
    to = Gateway(held=bytearray(CONTENT))
    async with _sender(file, to) as sent:
        await sent.sender.send()
    assert to.held == CONTENT
    assert to.received


async def test_a_session_that_has_everything_is_an_end(file: Path) -> None:
    to = Gateway(received=True)
    async with _sender(file, to) as sent:
        receipt = await sent.sender.send()
    assert receipt.size_bytes == 5_000_000
    assert to.ranges == []


@pytest.mark.parametrize(
    "answer", [refusal(416, "OffsetMismatch", "elsewhere"), refusal(408, "Stalled", "silence")]
)
async def test_where_to_go_on_is_asked_again(file: Path, answer: gateway.Answer) -> None:
    to = Gateway(held=bytearray(CONTENT[:1_000_000]), faults=[answer])
    async with _sender(file, to) as sent:
        await sent.sender.send()
    assert to.held == CONTENT
    assert to.ranges == ["bytes 1000000-4999999/5000000"]


async def test_a_file_that_was_received_meanwhile_is_an_end(file: Path) -> None:
    to = Gateway(faults=[refusal(409, "UploadReceived", "it is here")])
    async with _sender(file, to) as sent:
        assert (await sent.sender.send()).size_bytes == 5_000_000


async def test_a_busy_gateway_is_asked_again(file: Path) -> None:
    to = Gateway(faults=[refusal(503, "Busy", "come back"), (429, {"Retry-After": "0"}, b"")])
    async with _sender(file, to) as sent:
        await sent.sender.send()
    assert to.held == CONTENT


async def test_without_progress_it_gives_up_and_says_how_to_go_on(file: Path) -> None:
    to = Gateway(faults=[refusal(503, "Busy", "the store is full of other work")] * 50)
    async with _sender(file, to, patience=0.0) as sent:
        with pytest.raises(Failure, match="Run the same command again") as caught:
            await sent.sender.send()
    assert caught.value.code is Exit.FAILED
    assert "the store is full of other work" in caught.value.message


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (refusal(400, "NotAModel", "no GGUF", "Send a .gguf."), Exit.USAGE),
        (refusal(401, "Unauthorized", "wrong token", "Read the Secret."), Exit.DENIED),
        (refusal(409, "TakenOver", "a newer upload goes on", "Wait."), Exit.FAILED),
        (refusal(507, "InsufficientStorage", "no room", "Ask."), Exit.IMPOSSIBLE),
    ],
)
async def test_a_refusal_is_told_in_the_gateway_s_words(
    file: Path, answer: gateway.Answer, code: Exit
) -> None:
    to = Gateway(faults=[answer] * 3)
    async with _sender(file, to, patience=0.0) as sent:
        with pytest.raises(Failure) as caught:
            await sent.sender.send()
    assert caught.value.code is code
    assert "The gateway refuses the upload" in caught.value.message


async def test_a_wrong_token_ends_before_any_byte_is_sent(file: Path) -> None:
    to = Gateway(token="another")
    async with _sender(file, to) as sent:
        with pytest.raises(Failure, match="token is not accepted") as caught:
            await sent.sender.send()
    assert caught.value.code is Exit.DENIED
    assert to.ranges == []


async def test_a_file_that_changes_meanwhile_is_not_sent_as_a_mixture(file: Path) -> None:
    to = Gateway(faults=[1_000_000])
    async with _sender(file, to) as sent:
        whole = sent.sender._put

        async def changed(offset: int) -> sending.Receipt:
            await asyncio.to_thread(file.write_bytes, os.urandom(5_000_000))
            return await whole(offset)

        sent.sender._put = changed  # type: ignore[method-assign]
        with pytest.raises(Failure, match="was changed"):
            await sent.sender.send()
    assert not to.received


async def test_a_receipt_for_other_bytes_is_no_success(file: Path) -> None:
    answer = (201, {"Content-Type": "application/json"}, b'{"digest":"sha256:00","sizeBytes":5000000}')
    async with _sender(file, Gateway(faults=[answer])) as sent:
        with pytest.raises(Failure, match="What arrived is not the file"):
            await sent.sender.send()
