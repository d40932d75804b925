"""Clients that are not ours: skopeo copies in and out in every layout it knows, curl pushes as people do."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import shutil
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.kit.dmcr import Dmcr, digest_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

IMAGE = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
skopeo_needed = pytest.mark.skipif(
    shutil.which("skopeo") is None, reason="skopeo is missing: apt-get install skopeo"
)
curl_needed = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is missing: apt-get install curl")


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def dmcr(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Dmcr]:
    folder = tmp_path_factory.mktemp("dmcr")
    async with Dmcr(f"file://{folder}/store", folder / "log") as running:
        yield running


async def run(*command: str, data: bytes | None = None) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE if data is not None else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate(data)
    assert process.returncode == 0, f"{command}: {err.decode()} {out.decode(errors='replace')}"
    return out


class Layout:
    """An OCI layout on disk, with as many images as asked for under one index."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "blobs/sha256").mkdir(parents=True)
        (path / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')

    def blob(self, data: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        (self.path / "blobs/sha256" / digest).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    def image(self, architecture: str) -> dict[str, Any]:
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as tar:
            entry = tarfile.TarInfo("weights")
            entry.size = 300_000
            tar.addfile(entry, io.BytesIO(os.urandom(entry.size)))
        config = {
            "architecture": architecture,
            "os": "linux",
            "rootfs": {"type": "layers", "diff_ids": [digest_of(layer.getvalue())]},
            "config": {},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": IMAGE,
            "config": self.blob(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
            "layers": [self.blob(layer.getvalue(), "application/vnd.oci.image.layer.v1.tar")],
        }
        found = self.blob(json.dumps(manifest).encode(), IMAGE)
        return {**found, "platform": {"architecture": architecture, "os": "linux"}}

    def name(self, tag: str, descriptor: dict[str, Any]) -> None:
        named = {**descriptor, "annotations": {"org.opencontainers.image.ref.name": tag}}
        (self.path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [named]}))


def named(path: Path) -> str:
    """Digest of the one manifest that a layout names."""
    (only,) = json.loads((path / "index.json").read_text())["manifests"]
    digest: str = only["digest"]
    return digest


@skopeo_needed
async def test_skopeo_copies_an_oci_layout_in_and_out_unchanged(dmcr: Dmcr, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "in")
    image = layout.image("amd64")
    layout.name("v1", image)
    there = f"docker://127.0.0.1:{dmcr.port}/team/image:v1"
    insecure = ("--src-tls-verify=false", "--dest-tls-verify=false")
    copy = ("skopeo", "--insecure-policy", "copy", "--preserve-digests", *insecure)
    await run(*copy, f"oci:{layout.path}:v1", there)
    await run(*copy, there, f"oci:{tmp_path}/out:v1")
    assert named(tmp_path / "out") == image["digest"]
    for blob in (layout.path / "blobs/sha256").iterdir():
        assert (tmp_path / "out/blobs/sha256" / blob.name).read_bytes() == blob.read_bytes()
    told = json.loads(await run("skopeo", "inspect", "--tls-verify=false", there))
    assert told["Digest"] == image["digest"]
    assert told["RepoTags"] == ["v1"]


@skopeo_needed
async def test_skopeo_goes_through_a_docker_archive(dmcr: Dmcr, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "in")
    layout.name("v1", layout.image("amd64"))
    there = f"docker://127.0.0.1:{dmcr.port}/team/archived"
    insecure = ("--src-tls-verify=false", "--dest-tls-verify=false")
    copy = ("skopeo", "--insecure-policy", "copy", *insecure)
    archive = f"docker-archive:{tmp_path}/image.tar"
    await run(*copy, f"oci:{layout.path}:v1", f"{archive}:team/image:v1")
    await run(*copy, archive, f"{there}:from-archive")
    await run(*copy, f"{there}:from-archive", f"docker-archive:{tmp_path}/back.tar:team/image:v1")
    with tarfile.open(tmp_path / "image.tar") as before, tarfile.open(tmp_path / "back.tar") as after:
        assert {entry.name for entry in after} >= {
            entry.name for entry in before if entry.name.endswith(".tar") and entry.isfile()
        }


@skopeo_needed
async def test_skopeo_copies_an_index_between_repositories_and_deletes_a_manifest(
    dmcr: Dmcr, tmp_path: Path
) -> None:
    layout = Layout(tmp_path / "in")
    images = [layout.image("amd64"), layout.image("arm64")]
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": images}).encode()
    layout.name("v1", layout.blob(index, INDEX))
    registry = f"docker://127.0.0.1:{dmcr.port}"
    insecure = ("--src-tls-verify=false", "--dest-tls-verify=false")
    copy = ("skopeo", "--insecure-policy", "copy", "--all", "--preserve-digests", *insecure)
    await run(*copy, f"oci:{layout.path}:v1", f"{registry}/team/one:v1")
    await run(*copy, f"{registry}/team/one:v1", f"{registry}/team/two:v1")
    raw = await run("skopeo", "inspect", "--raw", "--tls-verify=false", f"{registry}/team/two:v1")
    assert raw == index
    await run("skopeo", "delete", "--tls-verify=false", f"{registry}/team/two:v1")
    async with dmcr.client.get("/v2/team/two/manifests/v1") as answer:
        assert answer.status == 404
    async with dmcr.client.get("/v2/team/one/manifests/v1") as answer:
        assert answer.status == 200


@curl_needed
async def test_curl_pushes_streamed_and_in_chunks_and_reads_a_range(dmcr: Dmcr) -> None:
    data = os.urandom(700_001)
    curl = ("curl", "-sS", "--fail-with-body")

    async def location(*command: str, body: bytes | None = None) -> str:
        head = (await run(*curl, "-D", "-", "-o", "/dev/null", *command, data=body)).decode()
        lines = dict(line.lower().split(": ", 1) for line in head.splitlines() if ": " in line)
        return dmcr.url + lines["location"]

    at = await location("-X", "POST", f"{dmcr.url}/v2/team/raw/blobs/uploads/")
    streamed = ("-H", "Transfer-Encoding: chunked", "-H", "Expect:", "--data-binary", "@-")
    at = await location("-X", "PATCH", *streamed, at, body=data[:400_000])
    chunk = ("-H", f"Content-Range: 400000-{len(data) - 1}", "--data-binary", "@-")
    at = await location("-X", "PATCH", *chunk, at, body=data[400_000:])
    blob = await location("-X", "PUT", f"{at}?digest={digest_of(data)}")
    assert await run(*curl, blob) == data
    assert await run(*curl, "-r", "100-199", blob) == data[100:200]
    assert await run(*curl, "-r", "-1", blob) == data[-1:]


@curl_needed
async def test_curl_with_a_wrong_digest_may_correct_it(dmcr: Dmcr) -> None:
    data = os.urandom(50_000)
    async with dmcr.client.post("/v2/team/raw/blobs/uploads/") as answer:
        location = answer.headers["Location"]
    async with dmcr.client.patch(location, data=data) as answer:
        assert answer.status == 202
    wrong = f"{dmcr.url}{location}?digest={digest_of(b'other')}"
    told = await run("curl", "-sS", "-w", "%{http_code}", "-X", "PUT", wrong)
    assert told.endswith(b"400")
    assert b"DIGEST_INVALID" in told
    assert digest_of(data).encode() in told, "the refusal names the digest of what came"
    right = f"{dmcr.url}{location}?digest={digest_of(data)}"
    assert (await run("curl", "-sS", "-w", "%{http_code}", "-X", "PUT", right)).endswith(b"201")
