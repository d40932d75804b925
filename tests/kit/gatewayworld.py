"""The upload gateway as a process, before a registry with grants: to be sent to, killed and started again."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import signal
import struct
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import trustme

from modelio.registry import GrantSource, Patience, RegistryClient, TransferSpec
from tests.kit.dmcr import Dmcr, free_port, with_grants
from tests.kit.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from modelio.registry import Manifest
    from tests.kit.accounts import Accounts

RECEIVED = "d8_ai_models_dmcr_received_bytes_total"


@dataclass(frozen=True)
class Ticket:
    """What a user finds in the Secret of an upload."""

    session: str
    url: str
    token: str
    repository: str


@dataclass(frozen=True)
class Answer:
    """What curl saw: status, headers by lower-case name, body, and how many bytes it sent."""

    status: int
    headers: dict[str, str]
    body: bytes
    sent: int
    code: int
    error: str

    def json(self) -> dict[str, str]:
        decoded: dict[str, str] = msgspec.json.decode(self.body)
        return decoded


@dataclass(frozen=True)
class Certificate:
    """Files of a server's certificate, and of who vouches for it."""

    ca_file: Path
    certificate: Path
    key: Path

    @classmethod
    def below(cls, folder: Path) -> Certificate:
        """Return where a folder has them."""
        return cls(folder / "gateway-ca.crt", folder / "gateway.crt", folder / "gateway.key")

    @classmethod
    def private(cls, folder: Path) -> Certificate:
        """Make one for this machine, by a private CA."""
        made, ca = cls.below(folder), trustme.CA()
        leaf = ca.issue_cert("localhost", "127.0.0.1")
        ca.cert_pem.write_to_path(made.ca_file)
        leaf.private_key_pem.write_to_path(made.key)
        leaf.cert_chain_pems[0].write_to_path(made.certificate)
        return made


class Gateway:
    """``python -m aimodels.upload`` with TLS; the certificate's files are there when it starts."""

    def __init__(
        self,
        registry: str,
        token_file: Path,
        folder: Path,
        idle_seconds: float,
        certificate: Certificate | None = None,
    ) -> None:
        certificate = certificate or Certificate.private(folder)
        self.ca_file = certificate.ca_file
        self.token_file = token_file
        self.port = free_port()
        self.log = folder / "gateway.log"
        self._environ = {
            **os.environ,
            "UPLOAD_LISTEN": f"127.0.0.1:{self.port}",
            "UPLOAD_DMCR_URL": registry,
            "UPLOAD_TOKEN_FILE": str(token_file),
            "UPLOAD_TLS_CERT_FILE": str(certificate.certificate),
            "UPLOAD_TLS_KEY_FILE": str(certificate.key),
            "UPLOAD_IDLE_SECONDS": str(idle_seconds),
        }
        self.process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    async def start(self) -> None:
        with self.log.open("ab") as log:
            start = log.tell()
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "aimodels.upload", env=self._environ, stderr=log
            )
        async with asyncio.timeout(30):
            while b'"serving"' not in self.log.read_bytes()[start:]:
                if self.process.returncode is not None:
                    raise RuntimeError(self.log.read_text())
                await asyncio.sleep(0.02)

    async def end(self, number: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is not None and process.returncode is None:
            process.send_signal(number)
            await process.wait()

    def peak_resident(self) -> int:
        """Most bytes of memory that the process ever had resident."""
        assert self.process is not None
        with open(f"/proc/{self.process.pid}/status") as status:  # noqa: PTH123 - a kernel file
            line = next(line for line in status if line.startswith("VmHWM"))
        return int(line.split()[1]) << 10


class World:
    """A registry, the gateway, the catalogue that allows uploads, and users with curl."""

    def __init__(
        self, dmcr: Dmcr, gateway: Gateway, catalogue: RegistryClient, account: str, folder: Path
    ) -> None:
        self.dmcr = dmcr
        self.gateway = gateway
        self.catalogue = catalogue
        self.account = account
        self._folder = folder

    async def allow(self) -> Ticket:
        """Do what the catalogue does for a model that waits for its upload."""
        repository = f"models/team/m{secrets.token_hex(4)}"
        token = secrets.token_hex(24)
        session = f"upload-{secrets.token_hex(6)}-g1-{secrets.token_hex(3)}"
        await self.catalogue.put_transfer(
            session,
            TransferSpec(
                service_account=self.account,
                repository=repository,
                purpose="upload",
                actions=("pull", "push"),
                token_hash=hashlib.sha256(token.encode()).hexdigest(),
            ),
        )
        return Ticket(session, f"{self.gateway.url}/v1/upload/{session}", token, repository)

    async def curl(self, ticket: Ticket, *arguments: str, query: str = "", path: str = "") -> Answer:
        """Run curl to its end."""
        return await self.answer(await self.start_curl(ticket, *arguments, query=query, path=path))

    async def start_curl(
        self, ticket: Ticket, *arguments: str, query: str = "", path: str = ""
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *("curl", "-sS", "--cacert", str(self.gateway.ca_file), "-D", "/dev/stderr"),
            *("-w", "\n%{http_code} %{size_upload}"),
            *(("-H", f"Authorization: Bearer {ticket.token}") if ticket.token else ()),
            *arguments,
            ticket.url + path + query,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def answer(self, process: asyncio.subprocess.Process) -> Answer:
        out, err = await process.communicate()
        body, _, numbers = out.rpartition(b"\n")
        status, sent = numbers.split()
        final = err.decode().split("HTTP/1.1 ")[-1].splitlines()
        headers = dict(line.lower().split(": ", 1) for line in final if ": " in line)
        assert process.returncode is not None
        return Answer(int(status), headers, body, int(sent), process.returncode, err.decode())

    async def head(self, ticket: Ticket) -> Answer:
        return await self.curl(ticket, "--head")

    def file(self, name: str, content: bytes) -> Path:
        path = self._folder / name
        path.write_bytes(content)
        return path

    async def until_received(self, more: int) -> None:
        """Return when the registry has received so many bytes more than now, or since it was started."""
        wanted = await self.dmcr.counter(RECEIVED) + more

        async def enough() -> bool:
            return await self.dmcr.counter(RECEIVED) >= wanted

        await eventually(enough, within=60)

    async def until_journaled(self, ticket: Ticket, at_least: int) -> int:
        """Return how much of an upload would outlive a kill of anybody, once that is so much."""

        async def enough() -> int | None:
            (one,) = [each for each in await self.catalogue.list_transfers() if each.id == ticket.session]
            return one.offset if one.offset >= at_least else None

        return await eventually(enough, within=60)

    async def received(self, ticket: Ticket) -> Manifest:
        """Return the manifest that says an upload is received."""
        return await self.catalogue.get_manifest(ticket.repository, "upload")

    async def stored(self, ticket: Ticket, digest: str) -> bytes:
        pieces = self.catalogue.read_blob(ticket.repository, digest)
        return b"".join([piece async for piece in pieces])


def gguf(size: int) -> bytes:
    """Return bytes that begin as a GGUF file does, and differ from call to call."""
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 0)
    return head + os.urandom(size - len(head))


@contextlib.asynccontextmanager
async def running(
    kubeconfig: Path, accounts: Accounts, folder: Path, *, idle_seconds: float = 5.0
) -> AsyncIterator[World]:
    """Start registry and gateway; the API server reviews their tokens."""
    catalogue, account = accounts.account("catalogue"), accounts.account("gateway")
    (folder / "catalogue-token").write_text(accounts.token(catalogue))
    (folder / "gateway-token").write_text(accounts.token(account))
    settings = with_grants(kubeconfig, folder, catalogue)
    async with contextlib.AsyncExitStack() as stack:
        dmcr = await stack.enter_async_context(
            Dmcr(f"file://{folder}/store", folder / "dmcr.log", **settings)
        )
        grants = GrantSource(folder / "catalogue-token")
        client = await stack.enter_async_context(
            RegistryClient(dmcr.url, auth=grants, patience=Patience(retry=10))
        )
        gateway = Gateway(dmcr.url, folder / "gateway-token", folder, idle_seconds)
        await gateway.start()
        stack.push_async_callback(gateway.end, signal.SIGTERM)
        yield World(dmcr, gateway, client, account, folder)
