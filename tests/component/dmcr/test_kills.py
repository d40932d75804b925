"""``kill -9`` in the middle of an upload: the same digest, and only what was not journaled comes again."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.kit.dmcr import Dmcr, digest_of, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NAME = "models/team/tiny"
MIB = 1 << 20
PART = 8 * MIB
#: two parts in flight and the one that fills
NOT_JOURNALED = 3 * PART
KEY = {"Dmcr-Resume-Key": "uid/model.gguf"}
RECEIVED = "d8_ai_models_dmcr_received_bytes_total"


async def opened(dmcr: Dmcr, length: int) -> tuple[str, int]:
    headers = {**KEY, "Dmcr-Length": str(length)}
    async with dmcr.client.post(f"/v2/{NAME}/blobs/uploads/", headers=headers) as answer:
        assert answer.status == 202, await answer.text()
        return answer.headers["Location"], int(answer.headers["Dmcr-Offset"])


async def received(dmcr: Dmcr, at_least: int) -> int:
    """Wait until the process has counted so many bytes."""
    return int(await until(lambda: dmcr.counter(RECEIVED), at_least))


async def killed_while_sending(dmcr: Dmcr, data: bytes, upto: int) -> int:
    """Send the upload from where it stands up to ``upto``, then kill; return what was received."""
    location, offset = await opened(dmcr, len(data))
    hold = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        for start in range(offset, upto, MIB):
            yield data[start : min(start + MIB, upto)]
        await hold.wait()
        yield data[upto:]

    sending = asyncio.ensure_future(send(dmcr, location, body()))
    try:
        return await received(dmcr, upto - offset)
    finally:
        await dmcr.kill()
        hold.set()
        await sending


async def send(dmcr: Dmcr, location: str, body: AsyncIterator[bytes]) -> None:
    with contextlib.suppress(aiohttp.ClientError):
        async with dmcr.client.patch(location, data=body) as answer:
            await answer.read()


@pytest.mark.parametrize(
    "kills",
    [[2 * PART], [2 * PART + 12_345], [PART - 1], [PART, 2 * PART + 7, 3 * PART, 4 * PART + MIB]],
    ids=["at-a-boundary", "inside-a-part", "inside-the-first-part", "again-and-again"],
)
async def test_a_killed_registry_goes_on_from_its_journal(tmp_path: Path, kills: list[int]) -> None:
    data = os.urandom(5 * PART + 54_321)
    total = 0
    async with Dmcr(f"file://{tmp_path}/store", tmp_path / "log") as dmcr:
        for upto in kills:
            total += await killed_while_sending(dmcr, data, upto)
            await dmcr.start()
        location, offset = await opened(dmcr, len(data))
        assert offset >= kills[-1] - NOT_JOURNALED

        async def rest() -> AsyncIterator[bytes]:
            for start in range(offset, len(data), MIB):
                yield data[start : start + MIB]

        await send(dmcr, location, rest())
        total += await received(dmcr, len(data) - offset)
        async with dmcr.client.put(location, params={"digest": digest_of(data)}) as answer:
            assert answer.status == 201, await answer.text()
        async with dmcr.client.get(f"/v2/{NAME}/blobs/{digest_of(data)}") as answer:
            assert digest_of(await answer.read()) == digest_of(data)
        assert total - len(data) <= NOT_JOURNALED * len(kills)


async def test_a_registry_killed_after_the_last_byte_closes_without_a_byte_more(tmp_path: Path) -> None:
    data = os.urandom(2 * PART + 100)
    async with Dmcr(f"file://{tmp_path}/store", tmp_path / "log") as dmcr:
        location, _ = await opened(dmcr, len(data))
        async with dmcr.client.patch(location, data=_pieces(data)) as answer:
            assert answer.headers["Dmcr-Offset"] == str(len(data))
        closing = asyncio.ensure_future(_closed(dmcr, location, digest_of(data)))
        await asyncio.sleep(0)
        await dmcr.kill()
        with contextlib.suppress(aiohttp.ClientError):
            await closing
        await dmcr.start()
        location, offset = await opened(dmcr, len(data))
        assert offset == len(data)
        assert await _closed(dmcr, location, digest_of(data)) == 201
        assert await dmcr.counter(RECEIVED) == 0


async def _closed(dmcr: Dmcr, location: str, digest: str) -> int:
    async with dmcr.client.put(location, params={"digest": digest}) as answer:
        return answer.status


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), MIB):
        yield data[start : start + MIB]
