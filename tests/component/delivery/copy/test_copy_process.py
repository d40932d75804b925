"""The copy Job as a process against a real DMCR: killed, starved, short of space, given damaged bytes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from aimodels.jobs.worker import Exit
from modelio.registry import RegistryClient
from modelkit import archives, modelpack
from modelkit.facts import ModelFacts
from tests.kit.eventually import eventually
from tests.kit.gate import Gate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.kit.dmcr import Dmcr

REPO = "models/team/x"
DELIVERED = "d8_ai_models_dmcr_delivered_bytes_total"
MIB = 1 << 20


#: one registry for all tests: each stores bytes of its own
pytestmark = pytest.mark.asyncio(loop_scope="module")


async def publish(dmcr: Dmcr, files: dict[str, bytes], tar: dict[str, bytes] | None = None) -> str:
    """Store an artifact and return its manifest's digest."""
    async with RegistryClient(dmcr.url) as client:
        layers = []
        for path, body in files.items():
            layers.append(modelpack.Layer(path, await push(client, body), len(body)))
        if tar is not None:
            packed = b"".join(
                archives.header(path, len(body)) + body + archives.padding(len(body))
                for path, body in tar.items()
            )
            packed += archives.END
            layers.append(modelpack.Layer(".", await push(client, packed), len(packed), encoding="tar"))
        package = modelpack.pack(layers, ModelFacts(format="GGUF"))
        await push(client, package.config)
        return await client.put_manifest(REPO, "published", modelpack.MANIFEST, package.manifest)


async def push(client: RegistryClient, body: bytes) -> str:
    async def pieces(at: int) -> AsyncIterator[bytes]:
        for begin in range(at, len(body), MIB):
            yield body[begin : begin + MIB]

    digest = "sha256:" + hashlib.sha256(body).hexdigest()
    session = await client.open_upload(REPO, digest, len(body))
    await session.send_from(pieces, length=len(body))
    await session.close(digest)
    return digest


class Copy:
    """One attempt after another into one claim."""

    def __init__(self, folder: Path, digest: str) -> None:
        self.target = folder / "claim"
        self.target.mkdir()
        self._termination = folder / "termination"
        self._termination.touch()
        self._digest = digest

    async def begin(self, url: str, *, inside: str = "") -> asyncio.subprocess.Process:
        """Start an attempt; ``inside`` is a shell command that comes first, in mounts of its own."""
        environ = {
            **os.environ,
            "COPY_DMCR_URL": url,
            "COPY_REPOSITORY": REPO,
            "COPY_DIGEST": self._digest,
            "COPY_TARGET": str(self.target),
            "COPY_TERMINATION_FILE": str(self._termination),
        }
        command = [sys.executable, "-m", "aimodels.delivery.copy"]
        if inside:
            script = f"{inside} && exec {shlex.join(command)}"
            command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script]
        return await asyncio.create_subprocess_exec(*command, env=environ)

    async def run(self, url: str, *, inside: str = "") -> int:
        process = await self.begin(url, inside=inside)
        async with asyncio.timeout(60):
            return await process.wait()

    def message(self) -> dict[str, str]:
        return dict(json.loads(self._termination.read_bytes()))

    def files(self) -> dict[str, bytes]:
        model = self.target / "model"
        return {
            str(path.relative_to(model)): path.read_bytes()
            for path in model.rglob("*")
            if path.is_file() and ".ai-models" not in path.parts
        }

    def part_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.target.glob(".ai-models-copy/*.part"))


async def in_the_middle(gate: Gate, process: asyncio.subprocess.Process) -> None:
    """Return when the gate has closed; an attempt that ended before it fails the test."""
    waiting = [asyncio.create_task(gate.reached.wait()), asyncio.create_task(process.wait())]
    async with asyncio.timeout(60):
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    assert gate.reached.is_set(), f"the attempt ended with {process.returncode}"


async def test_killed_in_the_middle_of_a_file_it_reads_only_the_rest(dmcr: Dmcr, tmp_path: Path) -> None:
    body = os.urandom(80 * MIB + 12_345)
    copy = Copy(tmp_path, await publish(dmcr, {"model.gguf": body}, {"config.json": b"{}"}))

    async def written() -> bool:
        return copy.part_bytes() >= 16 * MIB

    async with Gate(dmcr.port, 56 * MIB) as gate:
        process = await copy.begin(gate.url)
        await in_the_middle(gate, process)
        await eventually(written)
        process.send_signal(signal.SIGKILL)
        await process.wait()
    kept = copy.part_bytes()
    assert "model.gguf" not in copy.files()
    async with Gate(dmcr.port, 1 << 40) as gate:
        assert await copy.run(gate.url) == Exit.DONE
    assert copy.files() == {"model.gguf": body, "config.json": b"{}"}
    assert gate.passed <= len(body) - kept + 64 * 1024


async def test_asked_to_stop_it_stops_at_once_and_is_continued(dmcr: Dmcr, tmp_path: Path) -> None:
    body = os.urandom(40 * MIB)
    copy = Copy(tmp_path, await publish(dmcr, {"model.gguf": body}))
    async with Gate(dmcr.port, 8 * MIB) as gate:
        process = await copy.begin(gate.url)
        await in_the_middle(gate, process)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            assert await process.wait() == Exit.TRANSIENT
    assert await copy.run(dmcr.url) == Exit.DONE
    assert copy.files() == {"model.gguf": body}


async def test_registry_killed_in_the_middle_costs_no_attempt(dmcr: Dmcr, tmp_path: Path) -> None:
    body = os.urandom(40 * MIB)
    copy = Copy(tmp_path, await publish(dmcr, {"model.gguf": body}))
    async with Gate(dmcr.port, 16 * MIB) as gate:
        process = await copy.begin(gate.url)
        await in_the_middle(gate, process)
        await dmcr.kill()
        await dmcr.start()
        gate.open()
        async with asyncio.timeout(60):
            assert await process.wait() == Exit.DONE
    assert copy.files() == {"model.gguf": body}


def overwrite(store: Path, old: bytes, new: bytes) -> None:
    """Replace bytes where they lie, as a disk that forgets would."""
    for path in store.rglob("*"):
        if path.is_file() and (at := path.read_bytes().find(old)) >= 0:
            with path.open("r+b") as file:
                file.seek(at)
                file.write(new)
            return
    raise AssertionError("the bytes are not in the store")


async def test_damaged_bytes_never_become_a_file(dmcr: Dmcr, tmp_path: Path) -> None:
    body = os.urandom(3 * MIB)
    copy = Copy(tmp_path, await publish(dmcr, {"model.gguf": body}))
    overwrite(dmcr.log.parent / "store", body[MIB : MIB + 64], b"damage".ljust(64))
    assert await copy.run(dmcr.url) == Exit.TRANSIENT
    assert "digest" in copy.message()["message"]
    assert copy.files() == {}
    overwrite(dmcr.log.parent / "store", b"damage".ljust(64), body[MIB : MIB + 64])
    assert await copy.run(dmcr.url) == Exit.DONE
    assert copy.files() == {"model.gguf": body}


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    probe = ["unshare", "--map-root-user", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    return subprocess.run(probe, check=False, capture_output=True).returncode == 0


mounting = pytest.mark.skipif(
    not can_mount(), reason="mounting in a namespace of one's own is not allowed here"
)


@mounting
async def test_claim_smaller_than_the_model_is_told_before_a_byte(dmcr: Dmcr, tmp_path: Path) -> None:
    copy = Copy(tmp_path, await publish(dmcr, {"model.gguf": bytes(20 * MIB)}))
    before = await dmcr.counter(DELIVERED)
    assert (
        await copy.run(dmcr.url, inside=f"mount -t tmpfs -o size=16m tmpfs {copy.target}") == Exit.PERMANENT
    )
    assert copy.message()["reason"] == "InsufficientStorage"
    assert str(20 * MIB) in copy.message()["message"]
    assert await dmcr.counter(DELIVERED) - before < MIB


@mounting
async def test_disk_that_fills_up_on_the_way_is_told(dmcr: Dmcr, tmp_path: Path) -> None:
    copy = Copy(tmp_path, await publish(dmcr, {"small": b"x"}, {"large.bin": os.urandom(9 * MIB)}))
    assert (
        await copy.run(dmcr.url, inside=f"mount -t tmpfs -o size=12m tmpfs {copy.target}") == Exit.PERMANENT
    )
    assert copy.message()["reason"] == "InsufficientStorage"
    assert "full" in copy.message()["message"]


@mounting
async def test_volume_that_cannot_be_written_is_told_with_its_own_words(dmcr: Dmcr, tmp_path: Path) -> None:
    copy = Copy(tmp_path, await publish(dmcr, {"model.gguf": b"x"}))
    assert await copy.run(dmcr.url, inside=f"mount -t tmpfs -o ro tmpfs {copy.target}") == Exit.PERMANENT
    assert copy.message()["reason"] == "SharedPVCClaimPending"
    assert "Read-only file system" in copy.message()["message"]
