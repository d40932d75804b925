"""Orders on a real API server without nodes: the real controller; models and Pods are played by the test."""

from __future__ import annotations

import signal
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from random import SystemRandom
from typing import TYPE_CHECKING, Any

from aiohttp import web

from aiinference.api.classes import InferenceServiceClass
from aiinference.api.fields import API_VERSION as ORDERS
from aiinference.api.orders import InferenceService
from aiinference.workload.gate import API_PORT
from aimodels.api.model import API_VERSION, Model
from kubekit.client import Client, connect
from kubekit.conditions import find
from kubekit.resources import Pod, Secret, StatefulSet
from tests.kit.eventually import eventually
from tests.kit.inferenceapi import CHART, inference_class
from tests.kit.inferencecontroller import Controller, entitled
from tests.kit.lookupworld import DIGEST, RESOLVED
from tests.kit.modelsapi import install_definitions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kubekit.conditions import Condition

WAIT = 30.0
_DICE = SystemRandom()


class Runtime:
    """Answers as an order's gate does, at an address of its own; ``works`` may be taken away."""

    def __init__(self) -> None:
        self.address = f"127.{_DICE.randrange(64, 250)}.{_DICE.randrange(256)}.{_DICE.randrange(1, 255)}"
        self.works = True
        self.keys: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.keys.append(request.headers.get("Authorization", ""))
        if not self.works:
            return web.json_response({"error": {"message": "out of order"}}, status=500)
        message = {"role": "assistant", "content": "pong"}
        return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}]})


@dataclass
class World:
    """A namespace with orders, the controller that looks after them, and a class of their own."""

    client: Client
    controller: Controller
    namespace: str
    klass: str
    #: how long anything may take; more where many orders begin at once
    within: float = WAIT

    async def model(self, name: str, *, ready: bool = True) -> None:
        """Make a Model, ready unless told otherwise."""
        metadata = {"namespace": self.namespace, "name": name}
        head = {"apiVersion": API_VERSION, "kind": "Model", "metadata": metadata}
        await self.client.create(head | {"spec": {"source": {"upload": {}}}})
        if ready:
            await self.publish(name)

    async def publish(self, name: str) -> None:
        """Have a Model become ready."""
        since = datetime.now(UTC).isoformat(timespec="seconds")
        said = {"type": "Ready", "status": "True", "reason": "Ready", "message": "Stored."}
        status = {
            "phase": "Ready",
            "observedSource": {"type": "upload"},
            "artifact": {"digest": DIGEST, "sizeBytes": 253_000_000},
            "resolved": RESOLVED,
            "conditions": [said | {"lastTransitionTime": since}],
        }
        await self.client.patch(
            Model, name, {"status": status}, namespace=self.namespace, subresource="status"
        )

    async def make_class(self, name: str, **policies: Any) -> None:
        """Make a class."""
        spec = {"modelPolicy": {"allowedEndpointTypes": ["Chat", "Embeddings"]}} | policies
        await self.client.create(inference_class(name, spec))

    async def order(self, name: str, model: str, klass: str | None = None, **spec: Any) -> None:
        """Order a Model of the namespace."""
        source = {"src": "ai-models", "ref": {"kind": "Model", "name": model}}
        metadata = {"namespace": self.namespace, "name": name}
        named = {"inferenceServiceClassName": klass or self.klass}
        head = {"apiVersion": ORDERS, "kind": "InferenceService", "metadata": metadata}
        await self.client.create(head | {"spec": named | {"model": source} | spec})

    async def get(self, name: str) -> InferenceService:
        """Return an order."""
        return await self.client.get(InferenceService, name, self.namespace)

    async def says(self, name: str, type_: str, reason: str) -> InferenceService:
        """Wait until a condition has a reason and return the order."""
        seen: Condition | None = None

        async def look() -> InferenceService | None:
            nonlocal seen
            found = await self.get(name)
            seen = find(found.status.conditions, type_) if found.status else None
            return found if seen is not None and seen.reason == reason else None

        try:
            found: InferenceService = await eventually(look, within=self.within)
        except AssertionError as error:
            raise AssertionError(
                f"{type_} is {seen}, not {reason}\n{self.controller.log.read_text()}"
            ) from error
        return found

    async def workload(self, name: str) -> StatefulSet | None:
        """Return the StatefulSet of an order."""
        return await self.client.find(StatefulSet, name, self.namespace)

    async def run(self, name: str, runtime: Runtime, pod: str | None = None) -> None:
        """Play the kubelet: the order's first Pod, or another one, runs and is ready."""
        named = pod or f"{name}-0"

        async def look() -> Pod | None:
            return await self.client.find(Pod, named, self.namespace)

        assert await eventually(look, within=self.within) is not None
        since = datetime.now(UTC).isoformat(timespec="seconds")
        met = [
            {"type": one, "status": "True", "lastTransitionTime": since}
            for one in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ]
        running = {"name": "runtime", "ready": True, "started": True, "restartCount": 0, "image": "x"}
        running |= {"imageID": "x", "state": {"running": {"startedAt": since}}}
        status = {
            "phase": "Running",
            "podIP": runtime.address,
            "podIPs": [{"ip": runtime.address}],
            "conditions": met,
            "containerStatuses": [running],
        }
        await self.client.patch(
            Pod, named, {"status": status}, namespace=self.namespace, subresource="status"
        )

    async def token(self, name: str) -> str:
        """Return the order's key."""
        secret = await self.client.get(Secret, f"{name}-auth", self.namespace)
        return secret.data["token"].decode()


@asynccontextmanager
async def installed(
    kubeconfig: Path, namespace: str, folder: Path
) -> AsyncIterator[tuple[Client, Controller]]:
    """Give a controller at work; it asks again every second what may pass by itself."""
    async with connect(kubeconfig) as client, entitled(kubeconfig, namespace, folder) as mine:
        await install_definitions(client)
        await install_definitions(client, CHART)
        async with started(mine, namespace, folder) as controller:
            yield client, controller


@asynccontextmanager
async def started(
    kubeconfig: Path, namespace: str, folder: Path, **environ: str
) -> AsyncIterator[Controller]:
    """Give a controller at work that sees the cluster as the kubeconfig says."""
    controller = Controller(kubeconfig, namespace, folder / "controller.log")
    controller._environ |= {
        "AI_INFERENCE_CATALOG_NOT_READY_REQUEUE_SECONDS": "1",
        "AI_INFERENCE_DOMAIN_TEMPLATE": "%s.services.example.com",
        **environ,
    }
    await controller.start()
    try:
        yield controller
    finally:
        if controller.process is not None and controller.process.returncode is None:
            await controller.end(signal.SIGKILL)


@asynccontextmanager
async def tenancy(client: Client, controller: Controller, namespace: str) -> AsyncIterator[World]:
    """Give a namespace and a class for the orders of one test."""
    if controller.process is None or controller.process.returncode is not None:
        await controller.start()  # as a kubelet would, after a lease that a busy machine has lost
    world = World(client, controller, namespace, f"class-{namespace}")
    await world.make_class(world.klass, exposurePolicy={"type": "ClusterLocal"})
    try:
        yield world
    finally:
        await client.delete(InferenceServiceClass, world.klass)


@asynccontextmanager
async def answering() -> AsyncIterator[Runtime]:
    """Give a runtime at work."""
    runtime = Runtime()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", runtime.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, runtime.address, API_PORT).start()
    try:
        yield runtime
    finally:
        await runner.cleanup()
