"""DMCR as a process of its own, to be pushed to, killed and started again."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Self

import aiohttp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path
    from types import TracebackType

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def digest_of(data: bytes, algorithm: str = "sha256") -> str:
    return f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def until(look: Callable[[], Awaitable[float]], at_least: float) -> float:
    """Look at another process until the number is reached; a minute at most."""
    async with asyncio.timeout(60):
        while True:
            found = await look()
            if found >= at_least:
                return found
            await asyncio.sleep(0.05)


def with_grants(kubeconfig: Path, folder: Path, catalogue: str) -> dict[str, str]:
    """Return settings of a registry whose callers show grants; ``catalogue`` is ``namespace/account``."""
    signing = folder / "signing.pem"
    signing.write_bytes(
        Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    return {
        "DMCR_AUTH": "grants",
        "DMCR_SIGNING_KEY_FILE": str(signing),
        "DMCR_KUBERNETES_KUBECONFIG": str(kubeconfig),
        "DMCR_CATALOGUE_ACCOUNT": catalogue,
    }


class Dmcr:
    """``async with Dmcr(store) as dmcr``: a running registry, and a client session to it."""

    def __init__(self, store: str, log: Path, **settings: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("DMCR_")},
            "DMCR_STORE": store,
            "DMCR_LISTEN": f"127.0.0.1:{self.port}",
            **settings,
        }
        self.process: asyncio.subprocess.Process | None = None
        self.client: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        await self.start()
        self.client = aiohttp.ClientSession(
            self.url, timeout=aiohttp.ClientTimeout(total=120), auto_decompress=False
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.client.close()
        await self.stop()

    async def start(self) -> None:
        with self.log.open("ab") as log:
            start = log.tell()
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "aimodels.dmcr", env=self._environ, stderr=log
            )
        async with asyncio.timeout(30):
            while b'"serving"' not in self.log.read_bytes()[start:]:
                if self.process.returncode is not None:
                    raise RuntimeError(self.log.read_text())
                await asyncio.sleep(0.02)

    async def kill(self) -> None:
        """End the process as a power cut would: no flush, no answer."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        await self._end(signal.SIGTERM)

    async def _end(self, number: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is not None and process.returncode is None:
            process.send_signal(number)
            await process.wait()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def resident(self) -> int:
        """Bytes of memory that the process has resident now."""
        with open(f"/proc/{self.pid}/statm") as statm:  # noqa: PTH123 - a kernel file
            return int(statm.read().split()[1]) * 4096

    async def counter(self, name: str) -> float:
        """Sum of a counter over its labels."""
        async with self.client.get("/metrics") as answer:
            text = await answer.text()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name + "{"))

    async def push_blob(self, repository: str, data: bytes) -> str:
        digest = digest_of(data)
        async with self.client.post(
            f"/v2/{repository}/blobs/uploads/", params={"digest": digest}, data=io.BytesIO(data)
        ) as answer:
            assert answer.status == 201, await answer.text()
        return digest
