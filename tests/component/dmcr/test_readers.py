"""Row 23: a reader in the middle of a blob that is condemned, dead and deleted meanwhile."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from aimodels.dmcr.layout import Pointer, data_key, pointer_key
from aimodels.dmcr.swaps import Swaps
from objectstore.filesystem import FileSystemStore
from opskit.clock import SystemClock
from tests.kit.dmcr import Dmcr, digest_of

if TYPE_CHECKING:
    from pathlib import Path

NAME = "models/team/m"
MIB = 1 << 20


async def bury(folder: Path, digest: str) -> str:
    """Do to a blob what a collector does, step by step; return the key of the bytes."""
    store = FileSystemStore(folder)
    try:
        swaps = Swaps(store, SystemClock())
        held = await swaps.load(pointer_key(digest), Pointer)
        assert held is not None
        data = held.value.data or ""
        held = await swaps.swap(pointer_key(digest), held, replace(held.value, state="condemned"))
        dead = Pointer(state="dead", since=1, trash=(data,))
        held = await swaps.swap(pointer_key(digest), held, dead)
        await store.delete(data_key(data))
        await swaps.swap(pointer_key(digest), held, replace(dead, trash=()))
        return data_key(data)
    finally:
        await store.close()


async def test_23_a_reader_sees_the_whole_blob_or_a_short_one_and_never_other_bytes(tmp_path: Path) -> None:
    data = os.urandom(96 * MIB)
    async with Dmcr(f"file://{tmp_path}/store", tmp_path / "log") as dmcr:
        digest = await dmcr.push_blob(NAME, data)
        blob = f"/v2/{NAME}/blobs/{digest}"
        async with dmcr.client.get(blob) as answer:
            read = await answer.content.readexactly(MIB)
            await bury(tmp_path / "store", digest)
            async with dmcr.client.get(blob) as late:
                assert late.status == 404
            assert await dmcr.push_blob(NAME, data) == digest
            rest = hashlib.sha256(read)
            async for piece in answer.content.iter_any():
                rest.update(piece)
        assert f"sha256:{rest.hexdigest()}" == digest, "a file that is open stays readable"
        async with dmcr.client.get(blob) as answer:
            assert digest_of(await answer.read()) == digest
