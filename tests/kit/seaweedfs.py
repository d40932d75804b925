"""A real S3 service for tests: SeaweedFS behind TLS with a private CA, one per session.

`seaweedfs` starts it and tells where it is; it ends with the session, also when that is killed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trustme

from objectstore.s3settings import S3Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

WEED = Path(sys.executable).parent / "weed"
ACCESS, SECRET = "test-access-key", "test-secret-key"
LOOPBACK = "127.0.0.1"
START_TIMEOUT = 60
SERVICES = ("master", "volume", "filer", "s3")


@dataclass(frozen=True)
class Seaweed:
    """Where the service is and how its buckets are reached; a bucket is made by its first write."""

    port: int
    ca_file: Path
    host: str = "localhost"

    @property
    def endpoint(self) -> str:
        return f"https://{self.host}:{self.port}"

    def settings(self) -> S3Settings:
        return S3Settings(endpoint=self.endpoint, ca_file=self.ca_file, access_key=ACCESS, secret_key=SECRET)


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    """Return a running service."""
    folder = tmp_path_factory.mktemp("seaweedfs")
    with running(folder) as service:
        yield service


@contextmanager
def running(folder: Path, address: str = LOOPBACK) -> Iterator[Seaweed]:
    """Start a service on an address of this machine; its data, log and certificates are below the folder."""
    ca = trustme.CA()
    ca.cert_pem.write_to_path(folder / "ca.crt")
    leaf = ca.issue_cert("localhost", address)
    leaf.private_key_pem.write_to_path(folder / "tls.key")
    leaf.cert_chain_pems[0].write_to_path(folder / "tls.crt")
    (folder / "data").mkdir()
    (folder / "s3.json").write_text(json.dumps(_identities()))
    ports = free_ports(2 * len(SERVICES), address)
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", str(WEED), *_arguments(folder, address, ports)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
        )
    try:
        _wait(process, (address, ports[-2]), log)
        yield Seaweed(ports[-2], folder / "ca.crt", "localhost" if address == LOOPBACK else address)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _arguments(folder: Path, address: str, ports: list[int]) -> list[str]:
    settings = {
        "ip": address,
        "dir": folder / "data",
        "master.volumeSizeLimitMB": 64,
        "volume.max": 0,
        "s3.cert.file": folder / "tls.crt",
        "s3.key.file": folder / "tls.key",
        "s3.config": folder / "s3.json",
        "s3.localSocket": folder / "s3.sock",
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
    }
    for service, port, grpc in zip(SERVICES, ports[::2], ports[1::2], strict=True):
        settings |= {f"{service}.port": port, f"{service}.port.grpc": grpc}
    return ["server", "-filer", "-s3", *(f"-{name}={value}" for name, value in settings.items())]


def _identities() -> dict[str, object]:
    keys = [{"accessKey": ACCESS, "secretKey": SECRET}]
    return {"identities": [{"name": "test", "credentials": keys, "actions": ["Admin"]}]}


def free_ports(count: int, address: str = LOOPBACK) -> list[int]:
    """Return ports that nothing listens on; all are held at once, so that they differ."""
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in held:
            one.bind((address, 0))
        return [int(one.getsockname()[1]) for one in held]


def _wait(process: subprocess.Popen[bytes], address: tuple[str, int], log: Path) -> None:
    """Return when the S3 port accepts connections: it is the last service to start."""
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        try:
            socket.create_connection(address, timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"SeaweedFS did not start: {log.read_text()[-2000:]}") from None
            time.sleep(0.05)
        else:
            return
