"""Our finalizer on an object: put there before any work is done for it, taken off when nothing is left of it.

What belongs here: the two guarded patches. What does not: the clean-up between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubekit.errors import Conflict, Invalid, NotFound

if TYPE_CHECKING:
    from kubekit.client import Client
    from kubekit.resources import Resource


async def add_finalizer(client: Client, about: Resource, name: str) -> None:
    """Put the finalizer on this life of the object.

    Raises Conflict when the object was re-created or somebody changed its finalizers since it was read: read
    it again and repeat.
    """
    old = about.metadata.finalizers
    if name not in old:
        await _replace(client, about, [*old, name])


async def remove_finalizer(client: Client, about: Resource, name: str) -> None:
    """Take the finalizer off this life of the object; an object that is gone needs nothing.

    Raises Conflict like ``add_finalizer``.
    """
    old = about.metadata.finalizers
    if name in old:
        try:
            await _replace(client, about, [one for one in old if one != name])
        except NotFound:
            return


async def _replace(client: Client, about: Resource, new: list[str]) -> None:
    metadata = about.metadata
    # A test of an absent field against null holds, which is how "no finalizers so far" is guarded.
    operations: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": metadata.uid},
        {"op": "test", "path": "/metadata/finalizers", "value": metadata.finalizers or None},
        {"op": "add", "path": "/metadata/finalizers", "value": new},
    ]
    try:
        await client.patch(
            about.KIND, metadata.name, operations, namespace=metadata.namespace or None, content="json"
        )
    except Invalid as error:
        # That is how the API server words a test that does not hold.
        text = f"{metadata.name} was re-created or its finalizers were changed meanwhile"
        raise Conflict(error.code, "Conflict", text) from error
