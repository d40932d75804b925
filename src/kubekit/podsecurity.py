"""The Pod security level of a namespace.

What belongs here: saying it on the namespace. What does not: when a product does so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kubekit.resources import Namespace

if TYPE_CHECKING:
    from kubekit.client import Client

LEVEL: Final = "restricted"


async def restrict(client: Client, namespace: str, field_manager: str) -> None:
    """Make the API server refuse every Pod of the namespace that asks for more than it needs."""
    labels = {f"pod-security.kubernetes.io/{mode}": LEVEL for mode in ("enforce", "audit", "warn")}
    await client.patch(Namespace, namespace, {"metadata": {"labels": labels}}, field_manager=field_manager)
