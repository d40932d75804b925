"""A way to a Pod through the Kubernetes API, as ``kubectl port-forward`` has it, inside this process.

Every connection to the local port becomes one WebSocket to the API server, which hands it on to the kubelet.
On it channel 0 carries the bytes and channel 1 an error; the first frame of each repeats the port.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
import httpx2
from aiohttp.abc import AbstractResolver, ResolveResult
from lightkube.config.client_adapter import user_auth, verify_cluster
from lightkube.config.models import User

from aictl.exits import Failure
from kubekit.resources import Pod

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from aictl.cluster import Session

PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = 0, 1
CHUNK = 256 * 1024
CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Door:
    """Where the tunnel begins on this machine."""

    host: str
    port: int


class Detour(AbstractResolver):
    """Resolves every name to the tunnel's local port, so that names in certificates still hold."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def resolve(
        self,
        host: str,
        port: int = 0,  # noqa: ARG002 - the tunnel leads to one port
        family: socket.AddressFamily = socket.AF_INET,
    ) -> list[ResolveResult]:
        """Return the tunnel, whatever name is asked for."""
        return [
            ResolveResult(
                hostname=host, host=self._door.host, port=self._door.port, family=family, proto=0, flags=0
            )
        ]

    async def close(self) -> None:
        """Nothing to release."""


async def ready_pod(at: Session, namespace: str, app: str) -> str:
    """Return a Pod of the application that serves, or fail with the reason."""
    pods = await at.client.list(Pod, namespace, label_selector=f"app={app}")
    for pod in pods:
        if any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions):
            return pod.metadata.name
    raise Failure(
        f"No Pod of {app} is ready in {namespace}",
        f"There are {len(pods)}",
        f"`kubectl -n {namespace} get pods -l app={app}` shows why",
    )


@asynccontextmanager
async def open_tunnel(at: Session, namespace: str, pod: str, port: int) -> AsyncIterator[Door]:
    """Listen on a free local port while the block runs; each connection to it reaches the Pod's port."""
    server_url = at.config.cluster.server.rstrip("/")
    url = f"{server_url}/api/v1/namespaces/{namespace}/pods/{pod}/portforward?ports={port}"
    headers, tls = await _credentials(at, url)
    connections: set[asyncio.Task[None]] = set()
    async with aiohttp.ClientSession(trust_env=True) as web:

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                async with web.ws_connect(
                    url, protocols=(PROTOCOL,), headers=headers, ssl=tls, max_msg_size=0, compress=0
                ) as far:
                    await _join(reader, writer, far)
            except (aiohttp.ClientError, OSError):
                # The client at the local end sees its connection cut and tries again, as with any network.
                writer.transport.abort()
            finally:
                writer.close()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(carry(reader, writer))
            connections.add(task)
            task.add_done_callback(connections.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        try:
            yield Door("127.0.0.1", server.sockets[0].getsockname()[1])
        finally:
            server.close()
            for task in connections:
                task.cancel()
            await asyncio.gather(*connections, return_exceptions=True)


async def _join(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, far: aiohttp.ClientWebSocketResponse
) -> None:
    """Carry bytes both ways until either end closes."""
    both = {asyncio.create_task(_outward(reader, far)), asyncio.create_task(_inward(far, writer))}
    try:
        done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)


async def _outward(reader: asyncio.StreamReader, far: aiohttp.ClientWebSocketResponse) -> None:
    while data := await reader.read(CHUNK):
        await far.send_bytes(bytes([DATA]) + data)


async def _inward(far: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter) -> None:
    announced: set[int] = set()
    async for message in far:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel not in announced:
            announced.add(channel)
        elif channel == ERROR:
            raise ConnectionError(data.decode(errors="replace"))
        else:
            writer.write(data)
            await writer.drain()


async def _credentials(at: Session, url: str) -> tuple[dict[str, str], ssl.SSLContext]:
    """Return headers and TLS context of the kubeconfig's user."""
    user = at.config.user or User()
    request = httpx2.Request("GET", url)
    auth = user_auth(user)
    if auth is not None:
        flow = auth.async_auth_flow(request)
        request = await anext(flow)
        await flow.aclose()
    headers = (
        {"Authorization": request.headers["Authorization"]} if "Authorization" in request.headers else {}
    )
    return headers, verify_cluster(at.config.cluster, user, at.config.abs_file)
