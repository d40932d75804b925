"""The way to a Pod through the API: bytes both ways, a Pod chosen for each connection, failures told."""

from __future__ import annotations

import asyncio
import contextlib
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from lightkube.config import models as config_models
from lightkube.config.kubeconfig import KubeConfig

from aictl.cluster import Session
from aictl.exits import Failure
from aictl.tunnel import Detour, Door, Service, open_tunnel, ready_pod
from kubekit.client import Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PLACE = Service("d8-ai-models", "gateway", 8443)
USER = config_models.User(token="mine")
SIZE = 3_000_000


@dataclass
class Cluster:
    """An API server that knows Pods and forwards ports: to an application that answers in upper case."""

    pods: dict[str, bool] = field(default_factory=lambda: {"starting": False, "first": True})
    reached: list[str] = field(default_factory=list)
    refuse: str = ""
    credentials: set[str | None] = field(default_factory=set)

    async def list_pods(self, request: web.Request) -> web.Response:
        assert request.query["labelSelector"] == "app=gateway"
        items = [
            {
                "metadata": {"name": name, "namespace": "d8-ai-models"},
                "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
            }
            for name, ready in self.pods.items()
        ]
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})

    async def forward(self, request: web.Request) -> web.WebSocketResponse:
        self.credentials.add(request.headers.get("Authorization"))
        self.reached.append(request.match_info["pod"])
        assert request.query["ports"] == "8443"
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        port = (8443).to_bytes(2, "little")
        await socket.send_bytes(b"\x00" + port)
        await socket.send_bytes(b"\x01" + port)
        if self.refuse:
            await socket.send_bytes(b"\x01" + self.refuse.encode())
        async for message in socket:
            assert message.data[0] == 0
            await socket.send_bytes(b"\x00" + message.data[1:].upper())
        return socket


@asynccontextmanager
async def _session(cluster: Cluster) -> AsyncIterator[Session]:
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/d8-ai-models/pods", cluster.list_pods)
    app.router.add_get("/api/v1/namespaces/d8-ai-models/pods/{pod}/portforward", cluster.forward)
    server = TestServer(app)
    await server.start_server()
    address = str(server.make_url("/"))
    config = KubeConfig.from_one(cluster=config_models.Cluster(server=address), user=USER).get()
    assert config
    async with Client(config) as client:
        yield Session(client, config, "default", print)
    await server.close()


@asynccontextmanager
async def _connected(door: Door) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(door.host, door.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


async def test_bytes_go_both_ways_with_the_user_s_credentials(cluster: Cluster) -> None:
    problems: list[str] = []
    content = os.urandom(SIZE).hex().encode()
    async with (
        _session(cluster) as at,
        open_tunnel(at, PLACE, problems.append) as door,
        _connected(door) as (reader, writer),
    ):
        writer.write(content)
        assert await reader.readexactly(len(content)) == content.upper()
    assert cluster.reached == ["first"]
    assert cluster.credentials == {"Bearer mine"}
    assert problems == []


async def test_every_connection_goes_to_a_pod_that_is_ready_then(cluster: Cluster) -> None:
    async with _session(cluster) as at, open_tunnel(at, PLACE, lambda _text: None) as door:
        for pods in ({"first": True}, {"first": False, "second": True}):
            cluster.pods = pods
            async with _connected(door) as (reader, writer):
                writer.write(b"x")
                assert await reader.readexactly(1) == b"X"
    assert cluster.reached == ["first", "second"]


async def test_why_a_connection_ended_is_told(cluster: Cluster) -> None:
    problems: list[str] = []
    cluster.refuse = "connection refused in the Pod"
    async with (
        _session(cluster) as at,
        open_tunnel(at, PLACE, problems.append) as door,
        _connected(door) as (reader, _),
    ):
        assert await reader.read() == b""
    assert problems == ["connection refused in the Pod"]


async def test_without_a_ready_pod_it_says_how_to_look(cluster: Cluster) -> None:
    cluster.pods = {"starting": False}
    async with _session(cluster) as at:
        with pytest.raises(Failure, match="kubectl -n d8-ai-models get pods -l app=gateway"):
            await ready_pod(at, PLACE)


async def test_every_name_leads_to_the_tunnel(cluster: Cluster) -> None:
    async with _session(cluster) as at, open_tunnel(at, PLACE, lambda _text: None) as door:
        (found,) = await Detour(door).resolve("gateway.d8-ai-models.svc", 8443)
        assert (found["hostname"], found["host"], found["port"]) == (
            "gateway.d8-ai-models.svc",
            door.host,
            door.port,
        )
        connector = aiohttp.TCPConnector(resolver=Detour(door))
        async with aiohttp.ClientSession(connector=connector) as web_session:
            with pytest.raises(aiohttp.ClientError):
                await web_session.get("http://gateway.d8-ai-models.svc:8443/x")
    assert cluster.reached == ["first"]
