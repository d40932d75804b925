"""DMCR's PUT and GET against Debian's docker-registry: same disk, same run, alternating pairs.

Rows, each with medians of both, their ratio, and what limited DMCR's median transfer:

* ``PUT``: until the answer. DMCR has synced bytes and names by then. docker-registry 2.8 syncs its files, but
  no folder: after a power cut the blob's name may be gone.
* ``PUT+sync``: until a ``sync`` after the answer has ended: both are durable.
* ``GET`` and ``GET again``: just after the push, and once more.
* ``GET cold``: after the page cache was dropped for both; only as root.

Rates depend on what else the machine does; processor seconds per GB less so. Ratios hold on any machine. It
asserts nothing.

    .venv/bin/python tests/bench/dmcr_bench.py [--sizes 1,32,256] [--pairs 5] [--directory DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import mmap
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.dmcr_wire import MIB, Payload, Sample, Server, get, put
from tests.kit.dmcr import Dmcr, free_port

#: session, tail, its journal, data, seal, pointer, done: what a blob of one part costs
SMALL_WRITES = 7
COLD = "GET cold"
REGISTRY_CONFIG = """
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {root}}}, delete: {{enabled: true}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


def disk_rates(directory: Path, size: int) -> tuple[float, float]:
    """Return how fast plain writes with one flush reach this disk now, and direct reads come from it."""
    block = memoryview(mmap.mmap(-1, 8 * MIB))
    block[:] = os.urandom(len(block))
    target = directory / "plain"
    start = time.perf_counter()
    with target.open("wb", buffering=0) as file:
        for _ in range(0, size, len(block)):
            file.write(block)
        os.fdatasync(file.fileno())
    written = time.perf_counter()
    file_descriptor = os.open(target, os.O_RDONLY | os.O_DIRECT)
    while os.readv(file_descriptor, [block]):
        pass
    os.close(file_descriptor)
    target.unlink()
    return size / (written - start), size / (time.perf_counter() - written)


def hash_rate() -> float:
    """Return how fast one core hashes now."""
    block = bytes(8 * MIB)
    start = time.perf_counter()
    for _ in range(8):
        hashlib.sha256(block)
    return 8 * len(block) / (time.perf_counter() - start)


def small_write_time(directory: Path) -> float:
    """Return the seconds that one small durable object costs here: write, flush, rename, flush the folder."""
    start = time.perf_counter()
    folder = os.open(directory, os.O_RDONLY)
    for _ in range(8):
        with (directory / "small.new").open("wb", buffering=0) as file:
            file.write(b"x" * 500)
            os.fsync(file.fileno())
        (directory / "small.new").rename(directory / "small")
        os.fsync(folder)
    os.close(folder)
    return (time.perf_counter() - start) / 8


def limit(row: str, sample: Sample, bounds: Bounds) -> str:
    """Name the bound that the median transfer came closest to."""
    cores = os.cpu_count() or 1
    others = sample.machine - sample.server - sample.client
    busy = f"cores (server {sample.server:.2f}, client {sample.client:.2f}, others {others:.2f} of {cores})"
    shares = {busy: sample.machine / cores}
    if row.startswith("PUT"):
        shares["disk, writing"] = sample.rate / bounds.writing
        shares["SHA-256 of one core"] = sample.rate / bounds.hashing
        shares[f"{SMALL_WRITES} small durable writes in turn"] = SMALL_WRITES * bounds.small / sample.wall
    if row == COLD:
        shares["disk, reading"] = sample.rate / bounds.reading
    name = max(shares, key=lambda bound: min(shares[bound], 1))
    return f"{name} {min(shares[name], 1):.0%}"


class Bounds(NamedTuple):
    """What this machine could do in the same minutes: bytes per second, and seconds per small write."""

    writing: float
    reading: float
    hashing: float
    small: float


def drop_caches() -> bool:
    """Empty the page cache; False when this user may not."""
    try:
        Path("/proc/sys/vm/drop_caches").write_text("1")
    except PermissionError:
        return False
    return True


def transfers(server: Server, payload: Payload, repository: str) -> dict[str, Sample]:
    """Push a blob and read it in every way."""
    answered, synced = put(server, payload, repository)
    rows = {"PUT": answered, "PUT+sync": synced}
    for row in ("GET", "GET again"):
        rows[row] = get(server, payload, repository)
    if drop_caches():
        rows[COLD] = get(server, payload, repository)
    return rows


def compare(servers: list[Server], size: int, pairs: int, directory: Path) -> None:
    """Run the pairs of one size and print its rows."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="dmcr-bench-") as memory:
        payload = Payload(Path(memory) / "blob", size)
        found: dict[str, dict[str, list[Sample]]] = {}
        measured = []
        for pair in range(pairs + 1):
            disk = disk_rates(directory, max(size, 64 * MIB))
            measured.append(Bounds(*disk, hash_rate(), small_write_time(directory)))
            for server in servers if pair % 2 else reversed(servers):
                for row, sample in transfers(server, payload, f"bench/r{pair}").items():
                    if pair:  # the first pair warms everything up
                        found.setdefault(row, {}).setdefault(server.name, []).append(sample)
    bounds = Bounds(*(statistics.median(values) for values in zip(*measured, strict=True)))
    for row, samples in found.items():
        ours, theirs = (median(samples[server.name]) for server in servers)
        print(
            f"{size // MIB:>5} MiB {row:9}  dmcr {ours.rate / 1e9:6.3f} GB/s {ours.cpu * 1e9:5.2f} CPU-s/GB  "
            f"docker-registry {theirs.rate / 1e9:6.3f} GB/s {theirs.cpu * 1e9:5.2f} CPU-s/GB  "
            f"ratio {ours.rate / theirs.rate:5.2f}  limit: {limit(row, ours, bounds)}",
            flush=True,
        )
    print(
        f"      this machine meanwhile: disk writes {bounds.writing / 1e9:.3f} and reads "
        f"{bounds.reading / 1e9:.3f} GB/s, SHA-256 of one core {bounds.hashing / 1e9:.3f} GB/s, "
        f"a small durable write {bounds.small * 1e3:.1f} ms"
    )


def median(samples: list[Sample]) -> Sample:
    """Return the sample of the median rate, with the median of processor time."""
    middle = sorted(samples, key=lambda sample: sample.rate)[len(samples) // 2]
    middle.cpu = statistics.median(sample.cpu for sample in samples)
    return middle


async def run(sizes: list[int], pairs: int, directory: Path) -> None:
    """Start both registries on the directory and compare them, then DMCR's engine without a disk."""
    port = free_port()
    config = directory / "registry.yml"
    config.write_text(REGISTRY_CONFIG.format(root=directory / "registry", port=port))
    other = await asyncio.create_subprocess_exec(
        "docker-registry", "serve", config, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        async with Dmcr(f"file://{directory}/dmcr", directory / "log") as dmcr:
            await _answers(port)
            servers = [Server("dmcr", dmcr.port, dmcr.pid), Server("docker-registry", port, other.pid)]
            for size in sizes:
                await asyncio.to_thread(compare, servers, size * MIB, pairs, directory)
    finally:
        other.terminate()
        await other.wait()


async def _answers(port: int) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


def main() -> int:
    """Run the comparison; 2 when the peer is not installed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", default="1,32,256", help="MiB, comma separated")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--directory", type=Path, default=None, help="on the disk to measure")
    chosen = parser.parse_args()
    if shutil.which("docker-registry") is None:
        print("docker-registry is missing: apt-get install docker-registry", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(dir=chosen.directory, prefix="dmcr-bench-") as directory:
        sizes = [int(size) for size in chosen.sizes.split(",")]
        asyncio.run(run(sizes, chosen.pairs, Path(directory)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
