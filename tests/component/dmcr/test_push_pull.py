"""Blobs and manifests through the running process, over each store that needs nothing else."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import msgspec
import pytest
import pytest_asyncio

from tests.kit.dmcr import OCI_MANIFEST, Dmcr, digest_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAME = "models/team/tiny"
RECEIVED = "d8_ai_models_dmcr_received_bytes_total"


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["memory", "file"])
async def dmcr(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Dmcr]:
    folder = tmp_path_factory.mktemp("dmcr")
    store = "memory:" if request.param == "memory" else f"file://{folder}/store"
    async with Dmcr(store, folder / "log") as running:
        yield running


async def test_a_manifest_and_its_blobs_come_back_as_pushed(dmcr: Dmcr) -> None:
    layer = os.urandom(3_000_000)
    config = b'{"descriptor":{}}'
    await dmcr.push_blob(NAME, layer)
    await dmcr.push_blob(NAME, config)
    manifest = msgspec.json.encode(
        {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": {"mediaType": "application/x", "digest": digest_of(config), "size": len(config)},
            "layers": [{"mediaType": "application/y", "digest": digest_of(layer), "size": len(layer)}],
        }
    )
    target = f"/v2/{NAME}/manifests/published"
    async with dmcr.client.put(target, data=manifest, headers={"Content-Type": OCI_MANIFEST}) as answer:
        assert answer.status == 201, await answer.text()
        assert answer.headers["Docker-Content-Digest"] == digest_of(manifest)
    async with dmcr.client.get(target) as answer:
        assert await answer.read() == manifest
        assert answer.headers["Content-Type"] == OCI_MANIFEST
    async with dmcr.client.get(f"/v2/{NAME}/blobs/{digest_of(layer)}") as answer:
        assert await answer.read() == layer
    async with dmcr.client.get(
        f"/v2/{NAME}/blobs/{digest_of(layer)}", headers={"Range": "bytes=1000-1999"}
    ) as answer:
        assert answer.status == 206
        assert answer.headers["Content-Range"] == "bytes 1000-1999/3000000"
        assert await answer.read() == layer[1000:2000]


async def test_an_upload_resumes_under_its_key_with_its_digest(dmcr: Dmcr) -> None:
    data = os.urandom(21_000_001)
    uploads = f"/v2/{NAME}/blobs/uploads/"
    headers = {"Dmcr-Resume-Key": "uid/model.gguf"}
    async with dmcr.client.post(uploads, headers={**headers, "Dmcr-Length": str(len(data))}) as answer:
        assert answer.status == 202
        first = answer.headers["Location"]
    async with dmcr.client.patch(first, data=io.BytesIO(data[:9_000_001])) as answer:
        assert answer.status == 202
        assert answer.headers["Range"] == "0-9000000"
    async with dmcr.client.post(uploads, headers=headers) as answer:
        assert answer.headers["Dmcr-Offset"] == "9000001"
        assert answer.headers["Dmcr-Attempt"] == "2"
        second = answer.headers["Location"]
    async with dmcr.client.patch(first, data=b"late") as answer:
        assert answer.status == 409
    async with dmcr.client.patch(second, data=io.BytesIO(data[9_000_001:])) as answer:
        assert answer.headers["Dmcr-Offset"] == str(len(data))
    async with dmcr.client.get(second) as answer:
        assert answer.status == 204
        assert answer.headers["Dmcr-Digest"] == digest_of(data)
    async with dmcr.client.put(second, params={"digest": digest_of(data)}) as answer:
        assert answer.status == 201
    async with dmcr.client.get(f"/v2/{NAME}/blobs/{digest_of(data)}") as answer:
        assert await answer.read() == data


async def test_received_bytes_are_counted_once_per_byte(dmcr: Dmcr) -> None:
    before = await dmcr.counter(RECEIVED)
    await dmcr.push_blob(NAME, os.urandom(100_000))
    assert await dmcr.counter(RECEIVED) - before == 100_000
