"""What the benchmark of DMCR measures with: the servers' processor time, a payload, the least HTTP client."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import time
from pathlib import Path
from typing import NamedTuple, Self

MIB = 1 << 20
TICKS = os.sysconf("SC_CLK_TCK")
#: the kernel's clock id of another process is made of its id and this kind of clock
_SCHEDULED = 2


class Server:
    """A registry that runs, and the processor time that it has used."""

    def __init__(self, name: str, port: int, pid: int) -> None:
        self.name = name
        self.port = port
        self._pid = pid

    def cpu(self) -> float:
        """Return its processor seconds so far."""
        return time.clock_gettime((~self._pid << 3) | _SCHEDULED)


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
    """One transfer: bytes per second, the server's processor seconds per byte, who kept the cores busy."""

    def __init__(self, size: int, start: Moment, end: Moment) -> None:
        self.wall = end.wall - start.wall
        self.rate = size / self.wall
        self.cpu = (end.server - start.server) / size
        self.server = (end.server - start.server) / self.wall
        self.client = (end.client - start.client) / self.wall
        # the machine's clock has coarse ticks: a short transfer may see none of them
        self.machine = max((end.machine - start.machine) / self.wall, self.server + self.client)


class Moment(NamedTuple):
    """Seconds so far: of the wall, and of processors for the server, this client and the whole machine."""

    wall: float
    server: float
    client: float
    machine: float

    @classmethod
    def now(cls, server: Server) -> Self:
        """Read the clocks."""
        used = [int(field) for field in Path("/proc/stat").read_text().split(maxsplit=9)[1:9]]
        machine = (sum(used) - used[3] - used[4]) / TICKS
        return cls(time.perf_counter(), server.cpu(), time.process_time(), machine)


def put(server: Server, payload: Payload, repository: str) -> tuple[Sample, Sample]:
    """Push one blob as container clients do: POST, PATCH with everything, PUT; then wait for the disk.

    Returns how it went until the answer, and until everything was on the disk.
    """
    payload.renew()
    os.sync()
    connection = Connection(server.port)
    start = Moment.now(server)
    connection.ask("POST", f"/v2/{repository}/blobs/uploads/")
    location, _ = connection.answer(202)
    connection.ask("PATCH", location, payload.size)
    payload.send(connection.socket)
    location, _ = connection.answer(202)
    connection.ask("PUT", f"{location}{'&' if '?' in location else '?'}digest={payload.digest}")
    connection.answer(201)
    answered = Moment.now(server)
    os.sync()
    return Sample(payload.size, start, answered), Sample(payload.size, start, Moment.now(server))


def get(server: Server, payload: Payload, repository: str) -> Sample:
    """Read the blob that was pushed last."""
    connection = Connection(server.port)
    start = Moment.now(server)
    connection.ask("GET", f"/v2/{repository}/blobs/{payload.digest}")
    _, came = connection.answer(200)
    connection.drop(payload.size - came)
    return Sample(payload.size, start, Moment.now(server))
