"""The worker as a process against a real DMCR process: what it stores, what it refuses, what kills cost."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import tarfile
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from aimodels.jobs.worker import Exit
from aimodels.publication.__main__ import owner_of
from aimodels.publication.outcome import Refused
from aimodels.publication.publish import publish
from modelio.registry import NotFound, RegistryClient
from modelkit import archives, modelpack
from modelkit.reading import MemoryReader
from tests.kit import models
from tests.kit.cutter import Cutter
from tests.kit.dmcr import Dmcr, digest_of
from tests.kit.gate import Gate
from tests.kit.publication import Worker, blob_of, manifest_of, transfer_of, upload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_numbers = itertools.count(1)
pytestmark = pytest.mark.asyncio(loop_scope="module")

RECEIVED = "d8_ai_models_dmcr_received_bytes_total"
MIB = 1 << 20
#: parts of 8 MiB, two of them on their way, and what was in the sockets
NOT_JOURNALED = 24 * MIB


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def dmcr(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Dmcr]:
    """Return a registry for the tests of this file: each has a repository of its own."""
    folder = tmp_path_factory.mktemp("dmcr")
    async with Dmcr(f"file://{folder}/store", folder / "dmcr.log") as running:
        yield running


@pytest.fixture
def repo() -> str:
    """Return the name of a repository that no other test has."""
    return f"models/team/m{next(_numbers)}"


async def read_back(dmcr: Dmcr, repo: str) -> modelpack.Artifact:
    _, manifest = await manifest_of(dmcr, repo)
    config = json.loads(manifest)["config"]["digest"]
    return modelpack.read(manifest, await blob_of(dmcr, repo, config))


async def published(dmcr: Dmcr, repo: str) -> str:
    """Publish to the good end, as another attempt would, in this process; return the artifact's digest."""
    async with RegistryClient(dmcr.url) as client:
        digest = await publish(client, repo, owner_of(transfer_of(repo, 1)))
    assert (await manifest_of(dmcr, repo))[0] == digest
    return digest


async def by_process(dmcr: Dmcr, repo: str, folder: Path) -> str:
    """Run an attempt as a process to its good end and return the artifact's digest."""
    worker = Worker(dmcr.url, repo, folder)
    assert await worker.run() == Exit.DONE, worker.log.read_text()
    return (await manifest_of(dmcr, repo))[0]


async def test_a_lone_gguf_becomes_the_layer_without_another_copy(
    dmcr: Dmcr, repo: str, tmp_path: Path
) -> None:
    data = models.gguf_bytes()
    digest = await upload(dmcr, repo, data, "llama.gguf")
    before = await dmcr.counter(RECEIVED)
    await by_process(dmcr, repo, tmp_path)
    artifact = await read_back(dmcr, repo)
    assert artifact.layers == (modelpack.Layer("llama.gguf", digest, len(data)),)
    assert artifact.facts is not None
    assert artifact.facts.quantization == "F16"
    assert artifact.facts.facts.chat_template == "llama.gguf"
    assert await dmcr.counter(RECEIVED) - before < 10_000


@pytest.mark.parametrize("name", [None, "weights"])
async def test_a_gguf_is_known_by_its_bytes(dmcr: Dmcr, repo: str, name: str | None) -> None:
    await upload(dmcr, repo, models.gguf_bytes(), name)
    await published(dmcr, repo)
    assert (await read_back(dmcr, repo)).layers[0].path == (name or "model.gguf")


async def test_a_tar_becomes_a_layer_per_weight_file_and_one_of_small_files(dmcr: Dmcr, repo: str) -> None:
    files = models.checkpoint(shards=2, size=MIB)
    await upload(dmcr, repo, models.tar(files, "llama"), "llama.tar")
    digest = await published(dmcr, repo)
    artifact = await read_back(dmcr, repo)
    *weights, small = artifact.layers
    assert [layer.path for layer in weights] == [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    ]
    for layer in weights:
        assert layer.digest == digest_of(files[layer.path])
        assert await blob_of(dmcr, repo, layer.digest) == files[layer.path]
    assert (small.path, small.encoding, small.kind) == (modelpack.ROOT, "tar", "weight.config")
    packed = await blob_of(dmcr, repo, small.digest)
    members = archives.layer_members(MemoryReader(packed), "layer")
    assert {one.path: packed[one.start : one.start + one.size] for one in members} == {
        path: data for path, data in files.items() if path.endswith(".json")
    }
    assert artifact.facts is not None
    assert artifact.facts.supported_features == ("ToolCalling",)
    assert artifact.facts.facts.chat_template == "tokenizer_config.json"
    before = await dmcr.counter(RECEIVED)
    assert await published(dmcr, repo) == digest
    assert await dmcr.counter(RECEIVED) - before < 10_000


async def test_equal_files_give_an_equal_artifact_however_they_were_packed(dmcr: Dmcr, repo: str) -> None:
    files = models.checkpoint()
    await upload(dmcr, repo, models.tar(files, "a"), "a.tar")
    first = await published(dmcr, repo)
    turned = dict(reversed(files.items()))
    await upload(dmcr, repo, models.tar({**turned, "notes.md": b"x"}), "b.tar")
    assert await published(dmcr, repo) == first


def big() -> tuple[dict[str, bytes], bytes]:
    files = models.checkpoint(shards=2, size=28 * MIB)
    return files, models.tar(files)


@pytest.mark.parametrize("after", [3 * MIB, 26 * MIB, 44 * MIB])
async def test_killed_in_the_middle_it_sends_only_what_was_not_journaled(
    dmcr: Dmcr, repo: str, tmp_path: Path, after: int
) -> None:
    files, archive = big()
    await upload(dmcr, repo, archive, "big.tar")
    before = await dmcr.counter(RECEIVED)
    async with Gate(dmcr.port, after) as gate:
        first = Worker(gate.url, repo, tmp_path, 1)
        await first.start()
        await gate.reached.wait()
        await first.kill()
    digest = await published(dmcr, repo)
    received = await dmcr.counter(RECEIVED) - before
    stored = sum(len(data) for path, data in files.items() if path.endswith(".safetensors"))
    assert stored <= received <= stored + NOT_JOURNALED
    assert [layer.digest for layer in (await read_back(dmcr, repo)).layers[:2]] == [
        digest_of(files[path]) for path in sorted(files) if path.endswith("of-00002.safetensors")
    ]
    assert await published(dmcr, repo) == digest


async def test_the_registry_may_be_killed_and_started_again(dmcr: Dmcr, repo: str, tmp_path: Path) -> None:
    _, archive = big()
    await upload(dmcr, repo, archive, "big.tar")
    async with Gate(dmcr.port, 30 * MIB) as gate:
        worker = Worker(gate.url, repo, tmp_path, 1)
        await worker.start()
        await gate.reached.wait()
        await dmcr.kill()
        gate.open()
        await dmcr.start()
        assert await worker.wait() == Exit.DONE, worker.log.read_text()
    digest = (await manifest_of(dmcr, repo))[0]
    assert await published(dmcr, repo) == digest


async def test_broken_connections_cost_no_attempt(dmcr: Dmcr, repo: str, tmp_path: Path) -> None:
    _, archive = big()
    await upload(dmcr, repo, archive, "big.tar")
    async with Cutter(dmcr.port, 7 * MIB, times=6) as cutter:
        worker = Worker(cutter.url, repo, tmp_path, 1)
        assert await worker.run() == Exit.DONE, worker.log.read_text()
        assert cutter.left == 0
    digest = (await manifest_of(dmcr, repo))[0]
    assert await published(dmcr, repo) == digest


async def test_a_newer_attempt_takes_over_from_a_half_dead_one(dmcr: Dmcr, repo: str, tmp_path: Path) -> None:
    _, archive = big()
    await upload(dmcr, repo, archive, "big.tar")
    async with Gate(dmcr.port, 30 * MIB) as gate:
        first = Worker(gate.url, repo, tmp_path, 1)
        await first.start()
        await gate.reached.wait()
        digest = await published(dmcr, repo)
        gate.open()
        assert await first.wait() in {Exit.DONE, Exit.TRANSIENT}
    assert (await manifest_of(dmcr, repo))[0] == digest


def tar_with_link() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        link = tarfile.TarInfo("config.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return stream.getvalue()


REFUSED: dict[str, tuple[bytes, str, str, str]] = {
    "damaged gguf": (b"GGUF\x03\0\0\0" + bytes(100), "m.gguf", "PublicationFailed", "m.gguf"),
    "cut off gguf": (models.gguf_bytes()[:-50], "m.gguf", "PublicationFailed", "cut off"),
    "zip": (b"PK\x03\x04" + bytes(100), "m.zip", "UnsupportedSource", "plain .tar"),
    "gzip": (b"\x1f\x8b\x08\x00" + bytes(100), "m.tar.gz", "UnsupportedSource", "plain .tar"),
    "nothing known": (bytes(600), "m", "PublicationFailed", "no known model"),
    "lone tensors": (
        models.checkpoint()["model.safetensors"],
        "m.safetensors",
        "PublicationFailed",
        "config.json",
    ),
    "link": (tar_with_link(), "m.tar", "PublicationFailed", "symbolic link"),
    "program": (
        models.tar({**models.checkpoint(), "x.so": b"x"}),
        "m.tar",
        "PublicationFailed",
        "'x.so' may not be in a model",
    ),
    "two models": (
        models.tar({"a.gguf": models.gguf_bytes(), "b.gguf": models.gguf_bytes()}),
        "m.tar",
        "PublicationFailed",
        "send one of them",
    ),
    "shard missing": (
        models.tar(
            {path: data for path, data in models.checkpoint(shards=2).items() if "00002-of" not in path}
        ),
        "m.tar",
        "PublicationFailed",
        "model-00002-of-00002.safetensors",
    ),
    "no weights": (models.tar({"config.json": b"{}"}), "m.tar", "PublicationFailed", "no weights"),
    "cut off tar": (models.tar(models.checkpoint())[:2000], "m.tar", "PublicationFailed", "m.tar"),
}


async def test_what_is_no_model_is_refused_with_what_to_do(dmcr: Dmcr, repo: str) -> None:
    async with RegistryClient(dmcr.url) as client:
        for data, filename, reason, words in REFUSED.values():
            await upload(dmcr, repo, data, filename)
            with pytest.raises(Refused) as caught:
                await publish(client, repo, "owner")
            assert caught.value.reason == reason
            assert words in str(caught.value)
        with pytest.raises(NotFound):
            await client.get_manifest(repo, "published")


async def test_a_refusal_is_left_for_the_catalogue(dmcr: Dmcr, repo: str, tmp_path: Path) -> None:
    await upload(dmcr, repo, b"GGUF\x03\0\0\0", "a\u00e9.gguf")
    worker = Worker(dmcr.url, repo, tmp_path)
    assert await worker.run() == Exit.PERMANENT, worker.log.read_text()
    assert worker.verdict() == {
        "reason": "PublicationFailed",
        "message": "a\u00e9.gguf: offset 8: needs 8 bytes, but the file ends at 8.",
    }


async def test_other_sources_are_refused_by_name(dmcr: Dmcr, repo: str, tmp_path: Path) -> None:
    worker = Worker(dmcr.url, repo, tmp_path, PUBLICATION_SOURCE='{"type":"HuggingFace"}')
    assert await worker.run() == Exit.PERMANENT
    assert worker.verdict() == {
        "reason": "UnsupportedSource",
        "message": "Sources of type 'HuggingFace' are not served yet.",
    }


async def test_without_an_upload_another_attempt_is_worth_it(dmcr: Dmcr, repo: str, tmp_path: Path) -> None:
    async with dmcr.client.get("/v2/") as answer:
        assert answer.status == 200
    worker = Worker(dmcr.url, repo, tmp_path)
    assert await worker.run() == Exit.TRANSIENT
    assert worker.verdict()["reason"] == ""


async def test_settings_that_are_wrong_say_which(repo: str, tmp_path: Path) -> None:
    worker = Worker("http://127.0.0.1:1", repo, tmp_path, PUBLICATION_NONSENSE="1")
    async with asyncio.timeout(30):
        assert await worker.run() == Exit.WRONG_SETTINGS
    assert "PUBLICATION_NONSENSE" in worker.log.read_text()
