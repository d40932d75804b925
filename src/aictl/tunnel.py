"""A way to a Pod through the Kubernetes API, as ``kubectl port-forward`` has it, inside this process.

Every connection to the local port becomes one WebSocket to the API server, which hands it on to the kubelet.
On it channel 0 carries the bytes and channel 1 an error; the first frame of each repeats the port.
"""

from __future__ import annotations

import asyncio
import contextlib
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
from kubekit.errors import KubeError
from kubekit.resources import Pod

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable

    from aictl.cluster import Session

PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = 0, 1
CHUNK = 256 * 1024


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


@dataclass(frozen=True)
class Service:
    """What is to be reached: a port of the Pods of an application."""

    namespace: str
    app: str
    port: int
    #: by which its Pods are known
    label: str = "app"

    @property
    def selector(self) -> str:
        """Return what its Pods are found by."""
        return f"{self.label}={self.app}"


async def ready_pod(at: Session, service: Service) -> str:
    """Return a Pod of the application that serves, or fail with the reason."""
    namespace, app = service.namespace, service.app
    pods = await at.client.list(Pod, namespace, label_selector=service.selector)
    for pod in pods:
        if any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions):
            return pod.metadata.name
    raise Failure(
        f"No Pod of {app} is ready in {namespace}",
        f"there are {len(pods)} that are not",
        f"`kubectl -n {namespace} get pods -l {service.selector}` shows why",
    )


@asynccontextmanager
async def open_tunnel(at: Session, service: Service, failed: Callable[[str], None]) -> AsyncIterator[Door]:
    """Listen on a free local port while the block runs; a connection to it reaches a Pod that is ready then.

    ``failed`` is told why a connection could not be made or was cut; the client sees its connection end and
    tries again, as with any network.
    """
    tasks: set[asyncio.Task[None]] = set()
    async with aiohttp.ClientSession(trust_env=True) as web:

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                async with _far_end(at, service, web) as far:
                    await _join(reader, writer, far)
            except (aiohttp.ClientError, OSError, KubeError, Failure) as error:
                failed(str(error) or type(error).__name__)
                writer.transport.abort()
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(carry(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        try:
            yield Door("127.0.0.1", server.sockets[0].getsockname()[1])
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def _far_end(
    at: Session, service: Service, web: aiohttp.ClientSession
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """Open the way to a Pod that is ready now: another one may serve than a moment ago."""
    pod = await ready_pod(at, service)
    server_url = at.config.cluster.server.rstrip("/")
    path = f"/api/v1/namespaces/{service.namespace}/pods/{pod}/portforward"
    url = f"{server_url}{path}?ports={service.port}"
    headers, tls = await _credentials(at, url)
    async with web.ws_connect(
        url, protocols=(PROTOCOL,), headers=headers, ssl=tls, max_msg_size=0, compress=0
    ) as far:
        yield far


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
