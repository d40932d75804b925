"""DMCR on a real S3 service, with two replicas on one bucket."""

from __future__ import annotations

import asyncio
import io
import os
import secrets
from typing import TYPE_CHECKING

import msgspec
import pytest

from aimodels.dmcr.layout import Pointer, decode, pointer_key
from objectstore.s3 import S3Store
from tests.kit.dmcr import OCI_MANIFEST, Dmcr, digest_of, until
from tests.kit.seaweedfs import ACCESS, SECRET, Seaweed, seaweedfs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

__all__ = ["seaweedfs"]

NAME = "models/team/tiny"
MIB = 1 << 20
KEY = {"Dmcr-Resume-Key": "uid/model.gguf"}
RECEIVED = "d8_ai_models_dmcr_received_bytes_total"


@pytest.fixture
async def bucket(seaweedfs: Seaweed) -> str:
    """Name of a bucket that exists and is empty."""
    name = f"models-{secrets.token_hex(4)}"
    store = S3Store(name, "", seaweedfs.settings())
    await store.put("first", b"")
    await store.delete("first")
    await store.close()
    return name


def registry(seaweedfs: Seaweed, bucket: str, log: Path) -> Dmcr:
    return Dmcr(
        f"s3://{bucket}",
        log,
        DMCR_S3_ENDPOINT=seaweedfs.endpoint,
        DMCR_S3_CA_FILE=str(seaweedfs.ca_file),
        DMCR_S3_ACCESS_KEY=ACCESS,
        DMCR_S3_SECRET_KEY=SECRET,
    )


async def test_an_upload_begun_at_one_replica_ends_at_the_other(
    seaweedfs: Seaweed, bucket: str, tmp_path: Path
) -> None:
    data = os.urandom(19 * MIB + 7)
    uploads = f"/v2/{NAME}/blobs/uploads/"
    async with (
        registry(seaweedfs, bucket, tmp_path / "one") as one,
        registry(seaweedfs, bucket, tmp_path / "two") as two,
    ):
        length = {"Dmcr-Length": str(len(data))}
        async with one.client.post(uploads, headers={**KEY, **length}) as answer:
            first = answer.headers["Location"]
        hold = asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            yield data[: 17 * MIB]
            await hold.wait()

        sending = asyncio.ensure_future(_status(one, first, body()))
        await until(lambda: _offset(two, first), 16 * MIB)
        await one.kill()
        hold.set()
        await asyncio.gather(sending, return_exceptions=True)
        async with two.client.post(uploads, headers=KEY) as answer:
            location, offset = answer.headers["Location"], int(answer.headers["Dmcr-Offset"])
        assert offset == 16 * MIB
        rest = io.BytesIO(data[offset:])
        params = {"digest": digest_of(data)}
        async with two.client.put(location, params=params, data=rest) as answer:
            assert answer.status == 201, await answer.text()
        assert await two.counter(RECEIVED) == len(data) - offset
        async with two.client.get(f"/v2/{NAME}/blobs/{digest_of(data)}") as answer:
            assert digest_of(await answer.read()) == digest_of(data)


async def test_two_replicas_push_one_digest_and_both_serve_what_was_committed(
    seaweedfs: Seaweed, bucket: str, tmp_path: Path
) -> None:
    data, config = os.urandom(9 * MIB), b'{"descriptor":{}}'
    async with (
        registry(seaweedfs, bucket, tmp_path / "one") as one,
        registry(seaweedfs, bucket, tmp_path / "two") as two,
    ):
        await asyncio.gather(*(replica.push_blob(NAME, data) for replica in (one, two, one, two)))
        await one.push_blob(NAME, config)
        blobs = [
            {"mediaType": "application/x", "digest": digest_of(blob), "size": len(blob)}
            for blob in (config, data)
        ]
        manifest = msgspec.json.encode(
            {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": blobs[0], "layers": blobs[1:]}
        )
        target = f"/v2/{NAME}/manifests/published"
        async with one.client.put(target, data=manifest, headers={"Content-Type": OCI_MANIFEST}) as answer:
            assert answer.status == 201, await answer.text()
        async with two.client.get(target) as answer:
            assert await answer.read() == manifest
        async with two.client.delete(target) as answer:
            assert answer.status == 202
        async with one.client.get(target) as answer:
            assert answer.status == 404, "a deletion is seen at once on every replica"
    store = S3Store(bucket, "", seaweedfs.settings())
    pointer = decode((await store.get(pointer_key(digest_of(data)))).body, Pointer)
    kept = {key.rpartition("/")[2] async for key in store.list("data/")}
    assert {pointer.data, *pointer.trash} <= kept
    assert len(pointer.trash) == 3
    await store.close()


async def _status(dmcr: Dmcr, location: str, body: AsyncIterator[bytes]) -> int:
    async with dmcr.client.patch(location, data=body) as answer:
        return answer.status


async def _offset(dmcr: Dmcr, location: str) -> int:
    async with dmcr.client.get(location) as answer:
        return int(answer.headers["Dmcr-Offset"])
