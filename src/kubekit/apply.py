"""Server-side apply of objects that we own: the whole intent every time, and no write that changes nothing.

What belongs here: applying manifests and statuses, and deleting by uid. What does not: objects of somebody
else, which are never applied (a patch of one annotation is ``Client.patch``).
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from kubekit.errors import Conflict, Invalid
from kubekit.resources import Kind, Resource, kind_of

if TYPE_CHECKING:
    from kubekit.client import Client, Propagation

#: (kind, namespace, name)
_Place = tuple[str, str, str]


class Applier:
    """Applies under one field manager and remembers what it applied: repeating an intent costs nothing."""

    def __init__(self, client: Client, field_manager: str) -> None:
        self._client = client
        self._manager = field_manager
        self._applied: dict[_Place, tuple[bytes, str]] = {}

    async def apply(
        self, manifest: Mapping[str, Any], cached: Resource | None = None
    ) -> dict[str, Any] | None:
        """Make the object as the manifest says and return it, or return None when it is so already.

        With ``metadata.uid`` another life of the same name is a Conflict.

        It is so already when this intent was the last one applied *and* the cached object is the very version
        that this made, or contains the intent: a field that the intent dropped is removed by applying only.
        """
        place, digest = _place(manifest), _digest(manifest)
        if cached is not None and self._stands(place, digest, manifest, cached):
            return None
        answer = await self._send(manifest, None)
        self._applied[place] = digest, str(answer["metadata"].get("resourceVersion", ""))
        return answer

    async def status(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Make the object's status as the manifest says and return the object.

        With ``metadata.uid`` another life is a Conflict; with ``metadata.resourceVersion`` any change since
        it was read is one.
        """
        return await self._send(manifest, "status")

    async def delete(
        self,
        kind: type[Resource] | Kind,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        propagation: Propagation = "Background",
    ) -> bool:
        """Delete the object, only this life of it when a uid is given; return whether there was one."""
        place = (kind if isinstance(kind, Kind) else kind.KIND).name, namespace or "", name
        self._applied.pop(place, None)
        return await self._client.delete(kind, name, namespace, uid=uid, propagation=propagation)

    def _stands(self, place: _Place, digest: bytes, manifest: Mapping[str, Any], cached: Resource) -> bool:
        last, version = self._applied.get(place, (b"", ""))
        if last != digest:
            return False
        return cached.metadata.resource_version == version or contains(msgspec.to_builtins(cached), manifest)

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


def contains(observed: Any, intent: Any) -> bool:
    """Tell whether everything the intent says is there: mappings may have more, lists may not."""
    if isinstance(intent, Mapping):
        return isinstance(observed, Mapping) and all(
            key in ("apiVersion", "kind") or (key in observed and contains(observed[key], value))
            for key, value in intent.items()
        )
    if isinstance(intent, list | tuple):
        return (
            isinstance(observed, list | tuple)
            and len(observed) == len(intent)
            and all(contains(one, other) for one, other in zip(observed, intent, strict=True))
        )
    return bool(observed == intent)


def _place(manifest: Mapping[str, Any]) -> _Place:
    metadata = manifest["metadata"]
    return kind_of(manifest).name, metadata.get("namespace") or "", metadata["name"]


def _digest(manifest: Mapping[str, Any]) -> bytes:
    return blake2b(msgspec.json.encode(manifest, order="deterministic"), digest_size=16).digest()
