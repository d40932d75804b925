"""Orders with something going wrong: the controller behind a proxy, its sudden death, what is there then."""

from __future__ import annotations

import asyncio
import signal
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from aiinference.api.orders import InferenceService
from kubekit.client import connect
from kubekit.informer import Informer
from kubekit.resources.control import Lease
from tests.kit.faultproxy import FaultProxy
from tests.kit.inferenceapi import CHART
from tests.kit.inferencecontroller import NAME, entitled
from tests.kit.modelsapi import install_definitions
from tests.kit.ordersworld import started

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kubekit.client import Client
    from kubekit.queue import Priority
    from kubekit.store import Change
    from tests.kit.faultproxy import Request
    from tests.kit.inferencecontroller import Controller

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_KINDS = {
    "/api/v1": ("secrets", "services", "pods"),
    "/apis/apps/v1": ("statefulsets", "controllerrevisions"),
    "/apis/networking.k8s.io/v1": ("networkpolicies", "ingresses"),
    "/apis/policy/v1": ("poddisruptionbudgets",),
    "/apis/rbac.authorization.k8s.io/v1": ("roles",),
}


@dataclass
class Proxied:
    """A controller whose every request passes a proxy."""

    client: Client
    controller: Controller
    proxy: FaultProxy
    #: of the controller itself, with its lease
    namespace: str

    async def kill(self) -> None:
        """End the controller at once, and its lease too, which the next one would wait for."""
        await self.controller.end(signal.SIGKILL)
        await self.client.delete(Lease, NAME, self.namespace)


@asynccontextmanager
async def proxied(kubeconfig: Path, namespace: str, folder: Path, **environ: str) -> AsyncIterator[Proxied]:
    """Give a controller at work, with the rights of the chart, behind a proxy."""
    async with (
        connect(kubeconfig) as client,
        entitled(kubeconfig, namespace, folder) as mine,
        FaultProxy(mine) as proxy,
    ):
        await install_definitions(client)
        await install_definitions(client, CHART)
        seen_so = proxy.kubeconfig(folder / "proxied.kubeconfig")
        async with started(seen_so, namespace, folder, **environ) as controller:
            yield Proxied(client, controller, proxy, namespace)


class Nth:
    """Matches the n-th write in a namespace; ``seen`` are the writes so far."""

    def __init__(self, namespace: str, number: int) -> None:
        self._part = f"/namespaces/{namespace}/"
        self._number = number
        self.seen: list[str] = []

    def __call__(self, request: Request) -> bool:
        if request.method not in _WRITES or self._part not in request.path:
            return False
        self.seen.append(f"{request.method} {request.path.partition(self._part)[2]}")
        return len(self.seen) == self._number


async def objects(client: Client, namespace: str) -> dict[str, dict[str, Any]]:
    """Return all that belongs to orders of a namespace, by kind and name."""
    found = {}
    for api, plurals in _KINDS.items():
        for plural in plurals:
            body = await client.request("GET", f"{api}/namespaces/{namespace}/{plural}")
            for item in msgspec.json.decode(body)["items"]:
                found[f"{plural}/{item['metadata']['name']}"] = item
    return found


@asynccontextmanager
async def told(client: Client, namespace: str) -> AsyncIterator[list[InferenceService]]:
    """Give all that the orders of a namespace say of themselves, as they say it."""
    said: list[InferenceService] = []

    def hear(change: Change[InferenceService], _priority: Priority) -> None:
        if change.after is not None and change.after.status is not None:
            said.append(change.after)

    informer = Informer(client, InferenceService, namespace=namespace)
    informer.subscribe(hear)
    following = asyncio.create_task(informer.run())
    try:
        yield said
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
