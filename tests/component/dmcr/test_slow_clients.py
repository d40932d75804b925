"""Many clients that send a byte now and then, more of them than there is memory for, and one that is fast."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
from typing import TYPE_CHECKING

from tests.kit.dmcr import Dmcr, digest_of, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

MIB = 1 << 20
RECEIVED = "d8_ai_models_dmcr_received_bytes_total"
PART = 8 * MIB
FIRST = 1000
NAME = "models/team/m"


class Slow:
    """A client that dribbles until it is told to hurry."""

    def __init__(self, dmcr: Dmcr) -> None:
        self.data = os.urandom(PART + MIB)
        self.hurry = asyncio.Event()
        self._dmcr = dmcr

    async def pieces(self) -> AsyncIterator[bytes]:
        at = FIRST
        yield self.data[:at]
        while not self.hurry.is_set():
            yield self.data[at : at + 1]
            at += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.hurry.wait(), 0.1)
        yield self.data[at:]

    async def upload(self) -> None:
        await upload(self._dmcr, self.data, self.pieces())


async def upload(dmcr: Dmcr, data: bytes, body: AsyncIterator[bytes] | io.BytesIO) -> None:
    """Push a blob as container clients do, its length announced."""
    length = {"Dmcr-Length": str(len(data))}
    async with dmcr.client.post(f"/v2/{NAME}/blobs/uploads/", headers=length) as answer:
        location = answer.headers["Location"]
    async with dmcr.client.patch(location, data=body) as answer:
        assert (answer.status, answer.headers["Dmcr-Offset"]) == (202, str(len(data)))
    async with dmcr.client.put(location, params={"digest": digest_of(data)}) as answer:
        assert answer.status == 201, await answer.text()


async def test_slow_clients_keep_no_fast_one_waiting_and_finish_too(tmp_path: Path) -> None:
    settings = {"DMCR_BUFFER_BYTES": str(4 * PART)}
    async with Dmcr(f"file://{tmp_path}/store", tmp_path / "log", **settings) as dmcr:
        slow = [Slow(dmcr) for _ in range(8)]
        dribbling = [asyncio.create_task(one.upload()) for one in slow]
        await until(lambda: dmcr.counter(RECEIVED), len(slow) * FIRST)
        data = os.urandom(12 * PART)
        async with asyncio.timeout(60):
            await upload(dmcr, data, io.BytesIO(data))
        assert not any(task.done() for task in dribbling)
        for one in slow:
            one.hurry.set()
        await asyncio.gather(*dribbling)
        for sent in (data, *(one.data for one in slow)):
            async with dmcr.client.get(f"/v2/{NAME}/blobs/{digest_of(sent)}") as answer:
                assert await answer.read() == sent
