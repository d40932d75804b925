"""Parts of the worker: layers, resume keys, hashing over restarts, windows on a blob, the last message."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aimodels.api.reasons import ModelReason
from aimodels.jobs.worker import Interrupted, tell
from aimodels.publication import plan
from aimodels.publication.__main__ import owner_of
from aimodels.publication.push import Hashing, Pusher
from aimodels.publication.received import Received, RemoteBlob, fetch
from modelio.registry import Manifest, NotFound
from modelkit.archives import Member
from modelkit.policy import Format

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

MIB = 1 << 20
DIGEST = "sha256:" + "0" * 64


def test_large_companions_are_layers_of_their_own_and_small_ones_share_a_tar() -> None:
    members = [
        Member("tokenizer.json", 0, 17 * MIB),
        Member("model.safetensors", 0, 1000),
        Member("config.json", 0, 10),
        Member("vocab.txt", 0, 16 * MIB),
        Member("empty.safetensors", 0, 0),
        Member("README.md", 0, 5),
    ]
    planned = plan.layers(Format.SAFETENSORS, members)
    assert [(one.path, one.kind, one.encoding) for one in planned] == [
        ("model.safetensors", "weight", "raw"),
        ("tokenizer.json", "weight.config", "raw"),
        (".", "weight.config", "tar"),
    ]
    small = planned[-1]
    assert small.size == sum(segment.size for segment in small.segments)
    assert small.size % 512 == 0


def test_small_files_fill_the_tar_up_to_a_limit() -> None:
    members = [Member(f"vocab-{number}.txt", 0, 15 * MIB) for number in range(6)]
    planned = plan.layers(Format.SAFETENSORS, members)
    assert [one.path for one in planned] == ["vocab-4.txt", "vocab-5.txt", "."]


def test_a_program_stops_the_publication() -> None:
    with pytest.raises(plan.Rejected, match=r"x\.so"):
        plan.layers(Format.SAFETENSORS, [Member("model.safetensors", 0, 10), Member("lib/x.so", 0, 10)])


def test_a_resume_key_is_that_of_the_same_bytes_only() -> None:
    first, second = plan.layers(Format.GGUF, [Member("a.gguf", 512, 10), Member("b.gguf", 2048, 10)])
    keys = {
        first.resume_key("uid", DIGEST),
        second.resume_key("uid", DIGEST),
        first.resume_key("other", DIGEST),
        first.resume_key("uid", DIGEST.replace("0", "1")),
        plan.layers(Format.GGUF, [Member("a.gguf", 1024, 10)])[0].resume_key("uid", DIGEST),
    }
    assert len(keys) == 5
    assert first.resume_key("uid", DIGEST) in keys
    assert all(key.isascii() and len(key) < 200 for key in keys)


def test_all_attempts_at_one_model_share_their_owner() -> None:
    assert owner_of("publish-0f1e-2d3c-g1-a1") == owner_of("publish-0f1e-2d3c-g2-a17") == "publish-0f1e-2d3c"
    assert owner_of("anything") == "anything"


@given(st.binary(max_size=200), st.lists(st.tuples(st.integers(1, 50), st.integers(0, 60)), max_size=30))
def test_hashing_survives_beginning_again_further_back(data: bytes, steps: list[tuple[int, int]]) -> None:
    hashing, offset = Hashing(), 0
    for length, back in [*steps, (len(data), len(data)), (len(data), 0)]:
        piece = data[offset : offset + length]
        hashing.feed(offset, piece)
        offset = max(offset + len(piece) - back, 0)
    hashing.feed(0, data)
    assert hashing.digest(len(data)) == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert hashing.digest(len(data) + 1) is None


def test_hashing_of_a_stream_that_begins_late_says_nothing() -> None:
    hashing = Hashing()
    hashing.feed(5, b"abc")
    hashing.feed(0, b"abcdefgh")
    assert hashing.digest(8) is None


class Client:
    """Stands in for the registry: one blob, and what was asked for."""

    def __init__(self, data: bytes, manifest: Any = None) -> None:
        self.data = data
        self.manifest = manifest
        self.reads: list[tuple[int, int]] = []

    async def read_blob(
        self, _repository: str, _digest: str, start: int, length: int
    ) -> AsyncGenerator[bytes, None]:
        self.reads.append((start, length))
        for at in range(start, start + length, 100_000):
            yield self.data[at : min(at + 100_000, start + length)]

    def read_blob_ranges(
        self, repository: str, digest: str, start: int, length: int, **_: int
    ) -> AsyncGenerator[bytes, None]:
        return self.read_blob(repository, digest, start, length)

    async def get_manifest(self, _repository: str, _reference: str) -> Manifest:
        if self.manifest is None:
            raise NotFound("no such tag")
        return Manifest(json.dumps(self.manifest).encode(), "", DIGEST)


async def test_header_readers_see_a_blob_through_few_requests() -> None:
    data = random.Random(1).randbytes(3 * MIB)
    client = Client(data)
    blob = RemoteBlob(client, "r", Received(DIGEST, len(data), None))  # type: ignore[arg-type]

    def read() -> None:
        for offset in range(0, MIB, 1000):
            assert blob.read_at(offset, 1000) == data[offset : offset + 1000]
        assert blob.read_at(len(data) - 10, 100) == data[-10:]
        assert blob.read_at(len(data) + 10, 100) == b""
        assert blob.read_at(0, 2 * MIB) == data[: 2 * MIB]

    await asyncio.to_thread(read)
    assert len(client.reads) < 10


async def test_a_layer_is_the_same_from_any_offset() -> None:
    data = random.Random(2).randbytes(200_000)
    members = [Member("config.json", 512, 700), Member("vocab.txt", 5000, 1024), Member("a.txt", 9000, 5)]
    layer = plan.layers(Format.SAFETENSORS, members)[0]
    pusher = Pusher(Client(data), "r", Received(DIGEST, len(data), None), "owner")  # type: ignore[arg-type]

    async def read(offset: int) -> bytes:
        return b"".join([piece async for piece in pusher._pieces(layer, offset)])

    whole = await read(0)
    assert len(whole) == layer.size
    for offset in (1, 511, 512, 513, 1300, 2047, 2048, layer.size - 1, layer.size):
        assert await read(offset) == whole[offset:]


GOOD = {"layers": [{"digest": DIGEST, "size": 7, "annotations": {"org.cncf.model.filepath": "m.gguf"}}]}


@pytest.mark.parametrize(
    ("annotations", "name"),
    [
        ({"org.cncf.model.filepath": "m.gguf"}, "m.gguf"),
        ({}, None),
        ({"org.cncf.model.filepath": "../m.gguf"}, None),
        ({"org.cncf.model.filepath": "a/m.gguf"}, None),
        ({"org.cncf.model.filepath": 7}, None),
    ],
)
async def test_the_upload_is_what_the_gateway_wrote(annotations: dict[str, Any], name: str | None) -> None:
    manifest = {"layers": [{**GOOD["layers"][0], "annotations": annotations}]}
    found = await fetch(Client(b"", manifest), "r")  # type: ignore[arg-type]
    assert found == Received(DIGEST, 7, name)


@pytest.mark.parametrize(
    "manifest",
    [
        None,
        [],
        {},
        {"layers": []},
        {"layers": [*GOOD["layers"], *GOOD["layers"]]},
        {"layers": [{"digest": "x", "size": 1}]},
    ],
)
async def test_another_manifest_is_not_taken_for_an_upload(manifest: Any) -> None:
    with pytest.raises(Interrupted):
        await fetch(Client(b"", manifest), "r")  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["x", "x" * 5000, "\U0001f600" * 5000, '"\\\n' * 2000, "\ud800"])
def test_the_last_message_fits_what_the_kubelet_keeps(tmp_path: Path, text: str) -> None:
    file = tmp_path / "termination"
    file.touch()
    tell(file, ModelReason.PUBLICATION_FAILED, text)
    assert len(file.read_bytes()) <= 4096
    assert json.loads(file.read_bytes())["reason"] == "PublicationFailed"


def test_without_a_file_for_it_the_message_is_only_logged(tmp_path: Path) -> None:
    tell(tmp_path / "no" / "such", "", "x")
    assert list(tmp_path.iterdir()) == []


def test_more_layers_than_a_manifest_takes_are_refused_before_any_is_stored() -> None:
    weights = [Member(f"{number:05d}.safetensors", 0, 1) for number in range(plan.MOST_LAYERS)]
    with pytest.raises(plan.Rejected, match="8192 files are too many"):
        plan.layers(Format.SAFETENSORS, weights)
    small = Member("config.json", 0, 1)
    assert len(plan.layers(Format.SAFETENSORS, [*weights[1:], small])) == plan.MOST_LAYERS
