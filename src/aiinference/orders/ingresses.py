"""What the Ingress of an order leads to by now.

What belongs here: reading it. What does not: which host an order has (``hosts``), and writing the Ingress
(``aiinference.workload.network``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kubekit.errors import ApiError
from kubekit.resources.meta import Resource, resource

if TYPE_CHECKING:
    from kubekit.client import Client
    from kubekit.resources.meta import ObjectMeta


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One host."""

    host: str = ""


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of an Ingress."""

    rules: list[Rule] = []


@resource("networking.k8s.io/v1", "Ingress", "ingresses")
class Ingress(Resource, frozen=True, kw_only=True):
    """An Ingress."""

    spec: Spec = Spec()


async def has(client: Client, order: ObjectMeta, host: str) -> bool:
    """Tell whether an order's Ingress has a host; while that cannot be read nothing is taken from it."""
    try:
        found = await client.find(Ingress, order.name, order.namespace)
    except ApiError:
        return True
    return found is not None and any(rule.host == host for rule in found.spec.rules)
