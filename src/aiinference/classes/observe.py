"""What the cluster has of that which classes name.

What belongs here: reading stores into an observation. What does not: what follows from it (``decide``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiinference.classes.decide import Observation
from kubekit.errors import NotFound
from kubekit.resources import Resource, resource

if TYPE_CHECKING:
    from aiinference.api.classes import InferenceServiceClass
    from kubekit.client import Client
    from kubekit.store import Store


@resource("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False)
class PriorityClass(Resource, frozen=True, kw_only=True):
    """How important Pods are; only its name is read."""


@resource("resource.k8s.io/v1", "DeviceClass", "deviceclasses", namespaced=False)
class DeviceClass(Resource, frozen=True, kw_only=True):
    """A kind of device; only its name is read."""


async def has_device_classes(client: Client) -> bool:
    """Tell whether the cluster allocates devices dynamically (Kubernetes 1.34 and later)."""
    try:
        await client.request("GET", f"/apis/{DeviceClass.KIND.api_version}")
    except NotFound:
        return False
    return True


class Observer:
    """Reads the names of what classes may name; a cluster without DeviceClasses has no store of them."""

    def __init__(self, priorities: Store[PriorityClass], devices: Store[DeviceClass] | None) -> None:
        self._priorities = priorities
        self._devices = devices

    def observe(self, klass: InferenceServiceClass) -> Observation:
        """Return the class and what the cluster has."""
        devices = self._devices.list() if self._devices else []
        return Observation(
            klass,
            frozenset(one.metadata.name for one in devices),
            frozenset(one.metadata.name for one in self._priorities.list()),
        )
