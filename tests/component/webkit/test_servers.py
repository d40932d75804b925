"""Both servers in this process: dual stack, graceful end, changing certificates."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import TYPE_CHECKING

import pytest
import trustme

from tests.kit.eventually import eventually
from webkit import byteserver, server, tls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path
    from types import ModuleType

    from starlette.types import Receive, Scope, Send

SERVERS = pytest.mark.parametrize("module", [server, byteserver], ids=["uvicorn", "granian"])


WHOLE = b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na"


class App:
    """Answers with the size of the body; ``arrived`` tells that one has begun."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            self.arrived.set()
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
        body = b"%d" % size
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def running(
    module: ModuleType, app: App, files: tls.TlsFiles | None = None, host: str = "::"
) -> AsyncIterator[tuple[int, Callable[[], bool]]]:
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        module.serve(app, host=host, port=0, tls=files, started=port.set_result, stop_within=5)
    )
    try:
        yield await port, serving.cancel
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes = b"abc") -> bytes:
    writer.write(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return await finished(reader)


async def finished(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return await reader.readexactly(length)


@SERVERS
async def test_one_socket_takes_both_families(module: ModuleType) -> None:
    hosts = ["127.0.0.1", *(["::1"] if socket.has_dualstack_ipv6() else [])]
    async with running(module, App()) as (port, _):
        for host in hosts:
            reader, writer = await asyncio.open_connection(host, port)
            assert await ask(reader, writer) == b"3"
            writer.close()


@SERVERS
async def test_a_request_at_work_is_finished_and_a_new_one_refused(module: ModuleType) -> None:
    app = App()
    async with running(module, app, host="127.0.0.1") as (port, stop):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc")
        await app.arrived.wait()
        stop()

        async def refused() -> bool:
            try:
                _, probe = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionError:  # also reset: it was still waiting to be accepted
                return True
            probe.close()
            return False

        await eventually(refused)
        writer.write(b"def")
        assert await finished(reader) == b"6"
        writer.close()


def issue(ca: trustme.CA, folder: Path, name: str) -> tls.TlsFiles:
    """Replace the files as the kubelet does: a new directory behind a symbolic link."""
    version = folder / f"..{name}"
    version.mkdir()
    leaf = ca.issue_cert(name, "localhost")
    leaf.private_key_pem.write_to_path(version / "tls.key")
    leaf.cert_chain_pems[0].write_to_path(version / "tls.crt")
    fresh = folder / "..fresh"
    fresh.symlink_to(version)
    fresh.replace(folder / "..data")
    return tls.TlsFiles(folder / "..data" / "tls.crt", folder / "..data" / "tls.key")


@SERVERS
async def test_a_new_certificate_is_served_and_requests_at_work_are_finished(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "LOOK_EVERY", 0.05)
    ca = trustme.CA()
    trust = ssl.create_default_context()
    ca.configure_trust(trust)
    files = issue(ca, tmp_path, "first.example")

    app = App()

    async with running(module, app, files) as (port, _):

        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str]:
            reader, writer = await asyncio.open_connection(
                "localhost", port, ssl=trust, server_hostname="localhost"
            )
            names = writer.get_extra_info("peercert")["subjectAltName"]
            return reader, writer, names[0][1]

        old_reader, old_writer, name = await connect()
        assert name == "first.example"
        old_writer.write(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc")
        await app.arrived.wait()
        issue(ca, tmp_path, "second.example")
        for path in (tmp_path / "..first.example").iterdir():
            path.unlink()

        async def renewed() -> bool:
            _, writer, name = await connect()
            writer.close()
            return name == "second.example"

        await eventually(renewed)
        old_writer.write(b"def")
        assert await finished(old_reader) == b"6"
        old_writer.close()


@SERVERS
async def test_a_key_that_does_not_fit_leaves_the_old_certificate_served(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "LOOK_EVERY", 0.02)
    looked = asyncio.Event()
    monkeypatch.setattr(tls._LOG, "warning", lambda *_, **__: looked.set())
    ca = trustme.CA()
    trust = ssl.create_default_context()
    ca.configure_trust(trust)
    files = issue(ca, tmp_path, "first.example")
    async with running(module, App(), files) as (port, _):

        async def is_served() -> None:
            reader, writer = await asyncio.open_connection("localhost", port, ssl=trust)
            assert await ask(reader, writer) == b"3"
            writer.close()

        await is_served()
        ca.issue_cert("localhost").cert_chain_pems[0].write_to_path(files.certificate)
        await asyncio.wait_for(looked.wait(), 10)
        await is_served()


@SERVERS
async def test_a_head_without_end_is_not_kept_in_memory(module: ModuleType) -> None:
    async with running(module, App()) as (port, _):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX: ")
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 64 << 20:
                writer.write(bytes(b"a" * (1 << 20)))
                await asyncio.wait_for(writer.drain(), 10)
                sent += 1 << 20
        writer.transport.abort()
    assert sent < 32 << 20  # what the kernel's buffers took is not taken by the server


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHo", WHOLE + b"GET / HT"])
async def test_a_head_that_does_not_come_ends_the_connection(
    begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.1)
    async with running(server, App()) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begun)
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), 10)
        writer.close()


async def test_a_slow_body_is_not_a_slow_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.05)
    app = App()
    async with running(server, app) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na")
        await app.arrived.wait()
        await asyncio.sleep(2 * server.HEAD_SECONDS)
        writer.write(b"bc")
        assert await finished(reader) == b"3"
        writer.close()


async def test_trust_is_read_again(tmp_path: Path) -> None:
    old, new = trustme.CA(), trustme.CA()
    ca_file = tmp_path / "ca.crt"
    old.cert_pem.write_to_path(ca_file)
    trust = tls.trust(ca_file)
    reloaded = asyncio.Event()

    def reload() -> None:
        trust.load_verify_locations(ca_file)
        reloaded.set()

    watching = asyncio.create_task(tls.watch([ca_file], reload, every=0.01))
    await asyncio.sleep(0)
    ca_file.write_bytes(old.cert_pem.bytes() + new.cert_pem.bytes())
    await asyncio.wait_for(reloaded.wait(), 10)
    watching.cancel()
    assert len(trust.get_ca_certs()) == 2
