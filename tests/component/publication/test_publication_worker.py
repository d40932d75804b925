"""The worker as a process against a real DMCR process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from modelkit import archives, modelpack
from modelkit.reading import MemoryReader
from tests.kit import models
from tests.kit.dmcr import Dmcr, digest_of
from tests.kit.publication import Worker, blob_of, manifest_of, upload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

REPOSITORY = "models/team/llama"
RECEIVED = "d8_ai_models_dmcr_received_bytes_total"


@pytest.fixture
async def dmcr(tmp_path: Path) -> AsyncIterator[Dmcr]:
    async with Dmcr(f"file://{tmp_path}/store", tmp_path / "dmcr.log") as running:
        yield running


async def read_back(dmcr: Dmcr) -> modelpack.Artifact:
    _, manifest = await manifest_of(dmcr, REPOSITORY)
    config = json.loads(manifest)["config"]["digest"]
    return modelpack.read(manifest, await blob_of(dmcr, REPOSITORY, config))


async def test_a_lone_gguf_becomes_the_layer_without_another_copy(dmcr: Dmcr, tmp_path: Path) -> None:
    data = models.gguf_bytes()
    digest = await upload(dmcr, REPOSITORY, data, "llama.gguf")
    before = await dmcr.counter(RECEIVED)
    worker = Worker(dmcr.url, REPOSITORY, tmp_path)
    assert await worker.run() == 0, worker.log.read_text()
    artifact = await read_back(dmcr)
    assert artifact.layers == (modelpack.Layer("llama.gguf", digest, len(data)),)
    assert artifact.facts is not None
    assert artifact.facts.quantization == "F16"
    assert artifact.facts.facts.chat_template == "llama.gguf"
    assert await dmcr.counter(RECEIVED) - before < 10_000


async def test_a_tar_becomes_a_layer_per_weight_file_and_one_of_small_files(
    dmcr: Dmcr, tmp_path: Path
) -> None:
    files = models.checkpoint(shards=2, size=1 << 20)
    await upload(dmcr, REPOSITORY, models.tar(files, "llama"), "llama.tar")
    worker = Worker(dmcr.url, REPOSITORY, tmp_path)
    assert await worker.run() == 0, worker.log.read_text()
    artifact = await read_back(dmcr)
    *weights, small = artifact.layers
    assert [layer.path for layer in weights] == [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    ]
    for layer in weights:
        assert layer.digest == digest_of(files[layer.path])
        assert await blob_of(dmcr, REPOSITORY, layer.digest) == files[layer.path]
    assert (small.path, small.encoding, small.kind) == (modelpack.ROOT, "tar", "weight.config")
    packed = await blob_of(dmcr, REPOSITORY, small.digest)
    members = archives.layer_members(MemoryReader(packed), "layer")
    assert {one.path: packed[one.start : one.start + one.size] for one in members} == {
        path: data for path, data in files.items() if path.endswith(".json")
    }
    assert artifact.facts is not None
    assert artifact.facts.supported_features == ("ToolCalling",)
    assert artifact.facts.facts.chat_template == "tokenizer_config.json"
