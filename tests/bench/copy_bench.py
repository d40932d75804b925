"""The copy Job against what the same machine can do with the same bytes, in one run.

``python tests/bench/copy_bench.py [--mib 512] [--rounds 3]`` prints a table: the copy Job from a DMCR on this
machine, with and without TLS; ``curl | tee | sha256sum`` from the same DMCR, which is the same work in other
programs; ``cp`` of a local file, which is the disk alone. Each is durable at its end. The rounds take turns,
so that a busy machine is busy for all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shlex
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import trustme

from modelio.registry import RegistryClient
from modelkit import modelpack
from modelkit.facts import ModelFacts
from tests.kit.dmcr import Dmcr

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

REPO = "models/bench/copy"
PIECE = 1 << 20
AUTHORITY, SOURCE = "ca.crt", "source"


@dataclass
class Row:
    """One way of doing it, with the seconds and processor seconds of each round."""

    name: str
    command: list[str]
    environ: dict[str, str] = field(default_factory=dict)
    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


async def publish(url: str, source: Path, size: int) -> tuple[str, str]:
    """Store the file as a model and return the digests of manifest and layer."""

    async def pieces(at: int) -> AsyncIterator[bytes]:
        with source.open("rb") as file:
            file.seek(at)
            while piece := file.read(PIECE):
                yield piece

    async with RegistryClient(url) as client:
        session = await client.open_upload(REPO, "bench", size)
        await session.send_from(pieces, length=size)
        await session.refresh()
        layer = str(session.digest_so_far)
        await session.close(layer)
        package = modelpack.pack([modelpack.Layer("model.gguf", layer, size)], ModelFacts(format="GGUF"))
        await client.push_blob(REPO, package.config)
        return await client.put_manifest(REPO, "published", modelpack.MANIFEST, package.manifest), layer


def rows(plain: str, secure: str, folder: Path, digests: tuple[str, str]) -> list[Row]:
    """Return the ways to compare; the folder holds the source and the authority."""
    manifest, layer = digests
    target, authority, source = folder / "target", folder / AUTHORITY, folder / SOURCE
    copy = [sys.executable, "-m", "aimodels.delivery.copy"]
    shared = {
        "COPY_REPOSITORY": REPO,
        "COPY_DIGEST": manifest,
        "COPY_TARGET": str(target),
        "COPY_LOG_LEVEL": "error",
    }
    out = shlex.quote(str(target / "out"))

    def curl(url: str) -> list[str]:
        fetch = shlex.join(["curl", "-sf", "--cacert", str(authority), f"{url}/v2/{REPO}/blobs/{layer}"])
        return ["bash", "-c", f"set -o pipefail; {fetch} | tee {out} | sha256sum >/dev/null && sync {out}"]

    return [
        Row("copy Job", copy, shared | {"COPY_DMCR_URL": plain}),
        Row("curl | tee | sha256sum", curl(plain)),
        Row("copy Job, TLS", copy, shared | {"COPY_DMCR_URL": secure, "COPY_CA_FILE": str(authority)}),
        Row("curl | tee | sha256sum, TLS", curl(secure)),
        Row(
            "cp of a local file",
            ["bash", "-c", f"cp --reflink=never {shlex.quote(str(source))} {out} && sync {out}"],
        ),
    ]


async def once(row: Row, folder: Path) -> None:
    """Run one way one time into an empty target."""
    target = folder / "target"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = await asyncio.create_subprocess_exec(*row.command, env=os.environ | row.environ)
    if await process.wait() != 0:
        raise SystemExit(f"{row.name} failed with exit code {process.returncode}")
    row.wall.append(time.monotonic() - begun)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    row.processor.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def secured(folder: Path) -> dict[str, str]:
    """Make a certificate and return DMCR's settings for it."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(folder / AUTHORITY)
    certificate.cert_chain_pems[0].write_to_path(folder / "tls.crt")
    certificate.private_key_pem.write_to_path(folder / "tls.key")
    return {
        "DMCR_TLS_CERT_FILE": str(folder / "tls.crt"),
        "DMCR_TLS_KEY_FILE": str(folder / "tls.key"),
    }


async def bench(mib: int, rounds: int, folder: Path) -> list[Row]:
    """Run all ways in turns."""
    source = folder / SOURCE
    with source.open("wb") as file:
        for _ in range(mib):
            file.write(os.urandom(1 << 20))
    tls = secured(folder)
    store = f"file://{folder}/store"
    async with Dmcr(store, folder / "log") as plain, Dmcr(store, folder / "tls.log", **tls) as secure:
        digests = await publish(plain.url, source, mib << 20)
        ways = rows(plain.url, secure.url.replace("http:", "https:"), folder, digests)
        for _ in range(rounds):
            for row in ways:
                await once(row, folder)
    return ways


def table(ways: list[Row], size: int) -> str:
    """Return the medians as text."""
    lines = [f"{'':30}{'s':>7}{'MB/s':>8}{'CPU-s/GB':>10}{'of curl':>9}"]
    for row in ways:
        wall = statistics.median(row.wall)
        peer = next(
            (each for each in ways if each.name == row.name.replace("copy Job", "curl | tee | sha256sum")),
            row,
        )
        ratio = statistics.median(peer.wall) / wall
        lines.append(
            f"{row.name:30}{wall:7.2f}{size / wall / 1e6:8.0f}"
            f"{statistics.median(row.processor) / size * 1e9:10.2f}{ratio:9.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Parse arguments, run, print."""
    parser = argparse.ArgumentParser(description="Benchmark of the copy Job.")
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="copy-bench-", dir=os.environ.get("BENCH_DIR")) as folder:
        ways = asyncio.run(bench(arguments.mib, arguments.rounds, Path(folder)))
    if arguments.json:
        text = json.dumps({row.name: {"wall": row.wall, "processor": row.processor} for row in ways})
    else:
        text = table(ways, arguments.mib << 20)
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
