"""DMCR's PUT and GET against Debian's docker-registry: same disk, same run, alternating pairs.

Prints, per size, medians of both, their ratio, and what limited DMCR: the disk, one core's hash, all cores.
Ratios hold on any machine; the absolute figures are this machine's at this moment. It asserts nothing.

    .venv/bin/python tests/bench/dmcr_bench.py [--sizes 1,64,512] [--pairs 5] [--directory DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.kit.dmcr import Dmcr, free_port

MIB = 1 << 20
#: session, begin, tail, its journal, data, seal, pointer, done: what a blob of one part costs
SMALL_WRITES = 8
TICKS = os.sysconf("SC_CLK_TCK")
REGISTRY_CONFIG = """
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {root}}}, delete: {{enabled: true}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


class Server:
    """A registry that runs, and the processor time that it has used."""

    def __init__(self, name: str, port: int, pid: int) -> None:
        self.name = name
        self.port = port
        self._pid = pid

    def cpu(self) -> float:
        """Return its processor seconds so far."""
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


class Payload:
    """A file in memory whose first bytes change for every push, so that no digest is seen twice."""

    def __init__(self, path: Path, size: int) -> None:
        self.size = size
        self.digest = ""
        self._path = path
        with path.open("wb") as file:
            for _ in range(size // MIB):
                file.write(os.urandom(MIB))

    def renew(self) -> None:
        """Change the content and name its digest."""
        with self._path.open("r+b") as file:
            file.write(os.urandom(16))
        with self._path.open("rb") as file:
            self.digest = "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()

    def send(self, connection: socket.socket) -> None:
        """Send it without a copy of the client's own."""
        with self._path.open("rb") as file:
            sent = 0
            while sent < self.size:
                sent += os.sendfile(connection.fileno(), file.fileno(), sent, self.size - sent)


class Connection:
    """The least HTTP client there is, so that the server's work is what is measured."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self._buffer = bytearray(4 * MIB)

    def ask(self, method: str, target: str, length: int = 0) -> None:
        """Send a request's head."""
        head = f"{method} {target} HTTP/1.1\r\nHost: bench\r\nContent-Length: {length}\r\n\r\n"
        self.socket.sendall(head.encode())

    def answer(self, status: int) -> tuple[str, int]:
        """Return the path of Location, and how much of the body came with the head."""
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.socket.recv(65536)
        lines, _, body = head.partition(b"\r\n\r\n")
        if f" {status} ".encode() not in lines.splitlines()[0]:
            raise RuntimeError(head.decode(errors="replace"))
        found = re.search(rb"(?im)^location: (?:https?://[^/]+)?(\S+)", lines)
        return (found[1].decode() if found else ""), len(body)

    def drop(self, count: int) -> None:
        """Read a body and forget it."""
        while count > 0:
            got = self.socket.recv_into(self._buffer)
            if not got:
                raise RuntimeError("the body ended early")
            count -= got


class Sample:
    """One transfer: bytes per second of wall time, and the server's processor seconds per byte."""

    def __init__(self, size: int, wall: float, cpu: float) -> None:
        self.wall = wall
        self.rate = size / wall
        self.cpu = cpu / size
        self.busy = cpu / wall


def put(server: Server, payload: Payload, repository: str) -> Sample:
    """Push one blob as container clients do: POST, PATCH with everything, PUT."""
    payload.renew()
    os.sync()
    connection = Connection(server.port)
    cpu, start = server.cpu(), time.perf_counter()
    connection.ask("POST", f"/v2/{repository}/blobs/uploads/")
    location, _ = connection.answer(202)
    connection.ask("PATCH", location, payload.size)
    payload.send(connection.socket)
    location, _ = connection.answer(202)
    connection.ask("PUT", f"{location}{'&' if '?' in location else '?'}digest={payload.digest}")
    connection.answer(201)
    return Sample(payload.size, time.perf_counter() - start, server.cpu() - cpu)


def get(server: Server, payload: Payload, repository: str) -> Sample:
    """Read the blob that was pushed last."""
    connection = Connection(server.port)
    cpu, start = server.cpu(), time.perf_counter()
    connection.ask("GET", f"/v2/{repository}/blobs/{payload.digest}")
    _, came = connection.answer(200)
    connection.drop(payload.size - came)
    return Sample(payload.size, time.perf_counter() - start, server.cpu() - cpu)


def disk_rate(directory: Path, size: int) -> float:
    """Return how fast plain writes and one flush reach this disk now."""
    block = memoryview(os.urandom(8 * MIB))
    target = directory / "plain"
    start = time.perf_counter()
    with target.open("wb", buffering=0) as file:
        for _ in range(0, size, len(block)):
            file.write(block)
        os.fdatasync(file.fileno())
    rate = size / (time.perf_counter() - start)
    target.unlink()
    return rate


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


def limit(sample: Sample, bounds: Bounds) -> str:
    """Name the bound that the median transfer came closest to."""
    shares = {
        "disk": sample.rate / bounds.disk,
        "SHA-256 of one core": sample.rate / bounds.hashing,
        "all cores": sample.busy / (os.cpu_count() or 1),
        f"{SMALL_WRITES} small durable writes one after the other": SMALL_WRITES * bounds.small / sample.wall,
    }
    name = max(shares, key=lambda bound: shares[bound])
    return f"{name} ({shares[name]:.0%})"


class Bounds(NamedTuple):
    """What this machine could do in the same minutes: bytes per second, and seconds per small write."""

    disk: float
    hashing: float
    small: float


def median(samples: list[Sample]) -> Sample:
    """Return the sample of the median rate."""
    return sorted(samples, key=lambda sample: sample.rate)[len(samples) // 2]


def compare(servers: list[Server], size: int, pairs: int, directory: Path) -> None:
    """Run the pairs of one size and print its rows."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="dmcr-bench-") as memory:
        payload = Payload(Path(memory) / "blob", size)
        found: dict[tuple[str, str], list[Sample]] = {}
        measured = []
        for pair in range(pairs + 1):
            disk = disk_rate(directory, max(size, 64 * MIB))
            measured.append(Bounds(disk, hash_rate(), small_write_time(directory)))
            for server in servers if pair % 2 else reversed(servers):
                results = (put(server, payload, f"bench/r{pair}"), get(server, payload, f"bench/r{pair}"))
                if pair:  # the first pair warms everything up
                    for verb, sample in zip(("PUT", "GET"), results, strict=True):
                        found.setdefault((verb, server.name), []).append(sample)
    bounds = Bounds(*(statistics.median(values) for values in zip(*measured, strict=True)))
    for verb in ("PUT", "GET"):
        rows = {server.name: median(found[verb, server.name]) for server in servers}
        ours, theirs = rows["dmcr"], rows["docker-registry"]
        bound = limit(ours, bounds) if verb == "PUT" else f"cores busy {ours.busy:.1f}"
        print(
            f"{verb} {size // MIB:>5} MiB  dmcr {ours.rate / 1e9:6.3f} GB/s {ours.cpu * 1e9:5.2f} CPU-s/GB  "
            f"docker-registry {theirs.rate / 1e9:6.3f} GB/s {theirs.cpu * 1e9:5.2f} CPU-s/GB  "
            f"ratio {ours.rate / theirs.rate:5.2f}  limit: {bound}",
            flush=True,
        )
    print(
        f"    this machine meanwhile: plain disk write {bounds.disk / 1e9:.3f} GB/s, "
        f"SHA-256 of one core {bounds.hashing / 1e9:.3f} GB/s, "
        f"a small durable write {bounds.small * 1e3:.1f} ms"
    )


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
