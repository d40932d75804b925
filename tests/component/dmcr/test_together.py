"""Many clients at once, stalled readers, connections cut: the process keeps its word within its memory."""

from __future__ import annotations

import asyncio
import io
import os
import socket
from typing import TYPE_CHECKING

import pytest

from aimodels.dmcr.layout import Pointer, decode, pointer_key
from objectstore.filesystem import FileSystemStore
from tests.kit.dmcr import Dmcr, digest_of, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NAME = "models/team/tiny"
MIB = 1 << 20
BUDGET = 64 * MIB
RECEIVED = "d8_ai_models_dmcr_received_bytes_total"


@pytest.fixture
async def dmcr(tmp_path: Path) -> AsyncIterator[Dmcr]:
    async with Dmcr(
        f"file://{tmp_path}/store",
        tmp_path / "log",
        DMCR_BUFFER_BYTES=str(BUDGET),
        DMCR_IDLE_SECONDS="2",
    ) as running:
        yield running


async def test_sixteen_clients_push_one_digest_and_one_copy_stays(dmcr: Dmcr, tmp_path: Path) -> None:
    data = os.urandom(9 * MIB)
    pushed = await asyncio.gather(*(dmcr.push_blob(f"models/team/m{index}", data) for index in range(16)))
    assert set(pushed) == {digest_of(data)}
    store = FileSystemStore(tmp_path / "store")
    pointer = decode((await store.get(pointer_key(digest_of(data)))).body, Pointer)
    assert len(pointer.repos) == 16
    kept = {key.rpartition("/")[2] async for key in store.list("data/")}
    assert kept == {pointer.data, *pointer.trash}
    await store.close()


async def test_sixteen_uploads_at_once_stay_within_the_buffers(dmcr: Dmcr) -> None:
    await dmcr.push_blob(NAME, os.urandom(9 * MIB))
    before, most = dmcr.resident, 0

    async def body(seed: int) -> AsyncIterator[bytes]:
        nonlocal most
        piece = bytes([seed]) * MIB
        for _ in range(24):
            yield piece
            most = max(most, dmcr.resident)

    async def push(seed: int) -> None:
        data = bytes([seed]) * (24 * MIB)
        async with dmcr.client.post(f"/v2/{NAME}/blobs/uploads/") as answer:
            location = answer.headers["Location"]
        async with dmcr.client.patch(location, data=body(seed)) as answer:
            assert answer.status == 202, await answer.text()
        async with dmcr.client.put(location, params={"digest": digest_of(data)}) as answer:
            assert answer.status == 201, await answer.text()

    await asyncio.gather(*(push(seed) for seed in range(16)))
    assert most - before < BUDGET + 40 * MIB


async def test_a_reader_that_stalls_costs_no_memory(dmcr: Dmcr) -> None:
    digest = await dmcr.push_blob(NAME, os.urandom(96 * MIB))
    before = dmcr.resident
    readers = [socket.create_connection(("127.0.0.1", dmcr.port)) for _ in range(8)]
    try:
        for reader in readers:
            reader.sendall(f"GET /v2/{NAME}/blobs/{digest} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert reader.recv(10).startswith(b"HTTP/1.1 2")
        for _ in range(20):
            assert dmcr.resident - before < len(readers) * 12 * MIB
            async with dmcr.client.get("/v2/") as answer:
                assert answer.status == 200
    finally:
        for reader in readers:
            reader.close()


async def test_a_body_cut_by_the_client_is_kept_as_far_as_it_came(dmcr: Dmcr) -> None:
    data = os.urandom(9 * MIB)
    async with dmcr.client.post(f"/v2/{NAME}/blobs/uploads/") as answer:
        location = answer.headers["Location"]
    cut = socket.create_connection(("127.0.0.1", dmcr.port))
    cut.sendall(f"PATCH {location} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n".encode())
    cut.sendall(data[: 3 * MIB])
    await until(lambda: dmcr.counter(RECEIVED), 3 * MIB)
    cut.close()
    await until(lambda: _offset(dmcr, location), 3 * MIB)
    rest = io.BytesIO(data[3 * MIB :])
    headers = {"Content-Range": f"{3 * MIB}-{len(data) - 1}"}
    async with dmcr.client.patch(location, data=rest, headers=headers) as answer:
        assert answer.status == 202, await answer.text()
    async with dmcr.client.put(location, params={"digest": digest_of(data)}) as answer:
        assert answer.status == 201


async def test_a_half_open_writer_gives_way_to_the_one_that_continues(dmcr: Dmcr) -> None:
    data = os.urandom(2 * MIB)
    async with dmcr.client.post(f"/v2/{NAME}/blobs/uploads/", headers={"Dmcr-Resume-Key": "k"}) as answer:
        location = answer.headers["Location"]
    half = socket.create_connection(("127.0.0.1", dmcr.port))
    half.sendall(f"PATCH {location} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n".encode())
    half.sendall(data[:MIB])
    await until(lambda: dmcr.counter(RECEIVED), MIB)
    async with dmcr.client.post(f"/v2/{NAME}/blobs/uploads/", headers={"Dmcr-Resume-Key": "k"}) as answer:
        assert int(answer.headers["Dmcr-Offset"]) == MIB, "what the older writer held is durable"
        location = answer.headers["Location"]
    async with dmcr.client.put(
        location, params={"digest": digest_of(data)}, data=io.BytesIO(data[MIB:])
    ) as answer:
        assert answer.status == 201
    half.close()


async def test_an_idle_connection_is_ended_and_its_bytes_stay(dmcr: Dmcr) -> None:
    async with dmcr.client.post(f"/v2/{NAME}/blobs/uploads/") as answer:
        location = answer.headers["Location"]
    idle = socket.create_connection(("127.0.0.1", dmcr.port))
    idle.sendall(f"PATCH {location} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n".encode() + b"x" * 10)
    idle.settimeout(30)
    told = await asyncio.to_thread(idle.recv, 4096)
    idle.close()
    assert told.startswith(b"HTTP/1.1 408")
    assert await _offset(dmcr, location) == 10


async def _offset(dmcr: Dmcr, location: str) -> int:
    async with dmcr.client.get(location) as answer:
        assert answer.status == 204
        return int(answer.headers["Dmcr-Offset"])
