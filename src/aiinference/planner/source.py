"""The inventory as the gpu module publishes it: one PhysicalGPU per accelerator.

What belongs here: reading it, and for how long what was read holds. What does not: what is made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from aiinference.planner.inventory import Accelerator, Inventory
from kubekit.errors import NotFound
from kubekit.resources import Resource, resource

if TYPE_CHECKING:
    from kubekit.client import Client
    from opskit.clock import Clock

#: a new accelerator is seen no later
HELD_SECONDS = 10.0

_MIB = 1 << 20


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the parts that are read."""


class Capabilities(_Part, frozen=True, kw_only=True):
    """What the driver says about the device."""

    product_name: str = ""
    memory_mib: int | None = msgspec.field(default=None, name="memoryMiB")


class PhysicalGpuStatus(_Part, frozen=True, kw_only=True):
    """What is; without a driver there are no capabilities."""

    capabilities: Capabilities | None = None


@resource("gpu.deckhouse.io/v1alpha1", "PhysicalGPU", "physicalgpus", namespaced=False)
class PhysicalGpu(Resource, frozen=True, kw_only=True):
    """One accelerator of one node."""

    status: PhysicalGpuStatus | None = None


class Source:
    """Reads the inventory at most every few seconds."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._held: Inventory | None = None
        self._until = 0.0

    async def inventory(self) -> Inventory:
        """Return what the cluster has; ``KubeError`` when it cannot be read.

        A cluster without the gpu module does not know the kind: it has no accelerators.
        """
        if self._held is None or self._clock.monotonic() >= self._until:
            self._held = await self._read()
            self._until = self._clock.monotonic() + HELD_SECONDS
        return self._held

    async def _read(self) -> Inventory:
        try:
            found = await self._client.list(PhysicalGpu)
        except NotFound:
            return Inventory()
        return Inventory(tuple(_accelerator(one) for one in found))


def _accelerator(gpu: PhysicalGpu) -> Accelerator:
    said = gpu.status.capabilities if gpu.status else None
    memory = said.memory_mib if said else None
    return Accelerator(
        name=gpu.metadata.name,
        product=(said.product_name if said else "") or "a device without a driver",
        memory_bytes=memory * _MIB if memory else None,
    )
