"""Server-side apply of objects that we own: the whole intent every time.

What belongs here: applying manifests and statuses. What does not: whether a write is needed, which whoever
observes the object knows; objects of somebody else, which are never applied (a patch of one annotation is
``Client.patch``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubekit.errors import Conflict, Invalid
from kubekit.resources import kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubekit.client import Client


class Applier:
    """Applies under one field manager."""

    def __init__(self, client: Client, field_manager: str) -> None:
        self._client = client
        self._manager = field_manager

    async def apply(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Make the object as the manifest says and return it; what an earlier intent said more is removed.

        With ``metadata.uid`` another life of the same name is a Conflict.
        """
        return await self._send(manifest, None)

    async def status(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Make the object's status as the manifest says and return the object.

        With ``metadata.uid`` another life is a Conflict; with ``metadata.resourceVersion`` any change since
        it was read is one.
        """
        return await self._send(manifest, "status")

    async def _send(self, manifest: Mapping[str, Any], subresource: str | None) -> dict[str, Any]:
        metadata = manifest["metadata"]
        try:
            return await self._client.patch(
                kind_of(manifest),
                metadata["name"],
                dict(manifest),
                namespace=metadata.get("namespace"),
                content="apply",
                subresource=subresource,
                field_manager=self._manager,
                force=True,
            )
        except Invalid as error:
            # The API server calls another life's uid an attempt to change an immutable field.
            if "uid" in metadata and "metadata.uid" in error.message:
                raise Conflict(error.code, "Conflict", error.message) from error
            raise
