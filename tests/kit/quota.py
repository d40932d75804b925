"""A ResourceQuota on a namespace, in force when it is returned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kubekit.resources.meta import custom
from tests.kit.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubekit.client import Client

_NAME = "few"
_QUOTAS = custom("", "v1", "ResourceQuota", "resourcequotas")


async def limited(client: Client, namespace: str, hard: Mapping[str, str]) -> None:
    """Allow just so much in the namespace, and wait until the cluster counts it."""
    manifest = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": _NAME, "namespace": namespace},
        "spec": {"hard": dict(hard)},
    }
    await client.patch(
        _QUOTAS, _NAME, manifest, namespace=namespace, content="apply", field_manager="test", force=True
    )

    async def counted() -> bool:
        answer = await client.request("GET", _QUOTAS.path(namespace, _NAME))
        return bool(msgspec.json.decode(answer)["status"].get("hard") == hard)

    await eventually(counted)


async def unlimited(client: Client, namespace: str) -> None:
    """Allow everything again."""
    await client.delete(_QUOTAS, _NAME, namespace)
