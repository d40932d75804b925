"""What every Kubernetes object has: its kind, its metadata, and the table of kinds this process knows.

What belongs here: ``Kind``, ``ObjectMeta``, the base class ``Resource``. What does not: any single kind.

Structs are partial: fields that nobody reads are not declared and are skipped while decoding. So a Struct is
never sent back as a whole; writes are manifests (dicts) of exactly what is meant.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, ClassVar, Self, TypeVar

import msgspec


class Kind(msgspec.Struct, frozen=True):
    """Where the objects of one kind live in the API."""

    group: str
    version: str
    name: str
    plural: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """Return ``group/version``, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """Return the URL path of a collection, an object or a subresource."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        elif name and self.namespaced:
            raise ValueError(f"{self.name} {name} lives in a namespace, and none was given")
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/" + "/".join(parts)


class OwnerReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The object with whose deletion the garbage collector deletes this one."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a controller reads of ``metadata``; ``managedFields``, half of an object's size, are left out."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[OwnerReference] = []

    @property
    def key(self) -> tuple[str, str]:
        """Return (namespace, name); the namespace of cluster-wide objects is empty."""
        return self.namespace, self.name

    @property
    def deleting(self) -> bool:
        """Tell whether a deletion was requested and waits for finalizers or a grace period."""
        return self.deletion_timestamp is not None

    def belongs_to(self, owner: Self) -> bool:
        """Tell whether an owner reference names exactly this life of the other object."""
        return any(one.uid == owner.uid for one in self.owner_references)


class Resource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all partial Structs; subclasses say ``frozen=True, kw_only=True`` and carry ``@resource``."""

    KIND: ClassVar[Kind]

    metadata: ObjectMeta = ObjectMeta()


R = TypeVar("R", bound=Resource)

_KINDS: dict[tuple[str, str], Kind] = {}


def resource(
    api_version: str, kind: str, plural: str, *, namespaced: bool = True
) -> Callable[[type[R]], type[R]]:
    """Declare which kind a Struct is a view of; several Structs may view the same kind."""
    group, _, version = api_version.rpartition("/")
    known = custom(group, version, kind, plural, namespaced=namespaced)

    def declare(struct: type[R]) -> type[R]:
        struct.KIND = known
        return struct

    return declare


def custom(group: str, version: str, kind: str, plural: str, *, namespaced: bool = True) -> Kind:
    """Make a kind known without a Struct, for manifests that are only written."""
    made = Kind(group, version, kind, plural, namespaced)
    known = _KINDS.setdefault((made.api_version, kind), made)
    if known != made:
        raise ValueError(f"{made.api_version} {kind} is already known with another plural or scope: {known}")
    return known


def kind_of(manifest: Mapping[str, Any]) -> Kind:
    """Return the kind that a manifest names; it must be known to this process."""
    key = (str(manifest.get("apiVersion")), str(manifest.get("kind")))
    try:
        return _KINDS[key]
    except KeyError:
        raise ValueError(
            f"no kind {key[0]} {key[1]} is known; declare it with resource() or custom()"
        ) from None
