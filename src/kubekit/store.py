"""What this process knows of one kind: objects by key, with named indexes.

What belongs here: keeping and looking up. What does not: where the objects come from
(``kubekit.informer``).

Readers are plain calls: they never await and never see half of a list. A key whose object could not be
decoded is present as ``Undecodable``; reading it raises, and ``require_whole`` raises while there is any,
so that nobody deletes on the strength of what merely could not be read. An object for which an index fails is
such a key too: whoever looks through that index would miss it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from kubekit.errors import Unreadable
from kubekit.resources.meta import Resource
from kubekit.wire import Undecodable
from opskit import logging

if TYPE_CHECKING:
    from kubekit.resources.meta import ObjectMeta

R = TypeVar("R", bound=Resource)

Key = tuple[str, str]
Index = Callable[[R], Iterable[str]]
#: (index, value) of one object
_Postings = tuple[tuple[str, str], ...]

_log = logging.logger(__name__)


@dataclass(frozen=True)
class Change(Generic[R]):
    """An object before and after; None where there was or is no readable object."""

    key: Key
    metadata: ObjectMeta
    before: R | None
    after: R | None

    @property
    def sides(self) -> tuple[R, ...]:
        """Return the readable sides; mappers look at both, since a change may move an object."""
        return tuple(side for side in (self.before, self.after) if side is not None)


class Store(Generic[R]):
    """Objects of one kind by (namespace, name)."""

    def __init__(self, kind: str, indexes: Mapping[str, Index[R]] | None = None) -> None:
        self.kind = kind
        self._objects: dict[Key, R] = {}
        self._undecodable: dict[Key, Undecodable] = {}
        self._indexes: dict[str, Index[R]] = {}
        self._postings: dict[str, dict[str, dict[Key, None]]] = {}
        self._posted: dict[Key, _Postings] = {}
        for name, index in (indexes or {}).items():
            self.add_index(name, index)

    def add_index(self, name: str, index: Index[R]) -> None:
        """Make objects findable by the values that ``index`` gives for each."""
        if self._indexes.get(name, index) is not index:
            raise ValueError(f"{self.kind} has an index {name!r} already")
        self._indexes[name] = index
        self._postings[name] = {}
        for item in self.list():
            self._keep(item)

    def get(self, namespace: str, name: str) -> R | None:
        """Return an object, or None; raise ``Unreadable`` when it is there but could not be decoded."""
        key = (namespace, name)
        bad = self._undecodable.get(key)
        if bad is not None:
            raise Unreadable(self.kind, key, bad.error)
        return self._objects.get(key)

    def list(self, namespace: str | None = None) -> list[R]:
        """Return the readable objects, of one namespace or of all."""
        if namespace is None:
            return [*self._objects.values()]
        return [item for key, item in self._objects.items() if key[0] == namespace]

    def by(self, index: str, value: str) -> Sequence[R]:
        """Return the readable objects for which the index gives the value."""
        return [self._objects[key] for key in self._postings[index].get(value, ())]

    def require_whole(self) -> None:
        """Raise ``Unreadable`` when any object of the kind could not be decoded."""
        for key, bad in self._undecodable.items():
            raise Unreadable(self.kind, key, bad.error)

    @property
    def undecodable(self) -> Mapping[Key, Undecodable]:
        """Return the objects that could not be decoded."""
        return self._undecodable

    def __len__(self) -> int:
        return len(self._objects)

    def replace(self, items: Iterable[R | Undecodable]) -> Sequence[Change[R]]:
        """Put a complete list in place of everything; return what differs, vanished objects included."""
        fresh = {item.metadata.key: item for item in items}
        gone = [key for key in (*self._objects, *self._undecodable) if key not in fresh]
        changes = [change for key in gone if (change := self.remove(key)) is not None]
        changes += [change for item in fresh.values() if (change := self.apply(item)) is not None]
        return changes

    def apply(self, item: R | Undecodable) -> Change[R] | None:
        """Keep an object's newest state; None when it is the one that is known already."""
        key = item.metadata.key
        before = self._objects.get(key)
        known = self._undecodable.get(key) or before
        if known is not None and _version(known) == _version(item):
            return None
        kept = self._keep(item)
        if known is not None and _version(known) == _version(kept):
            return None
        return Change(key, item.metadata, before, None if isinstance(kept, Undecodable) else kept)

    def remove(self, key: Key) -> Change[R] | None:
        """Forget an object; None when it is not known."""
        before = self._objects.get(key)
        known = self._undecodable.get(key) or before
        if known is None:
            return None
        self._drop(key)
        return Change(key, known.metadata, before, None)

    def _keep(self, item: R | Undecodable) -> R | Undecodable:
        """Put the object in place of what is known of its key; return it, undecodable if an index fails."""
        key = item.metadata.key
        values: _Postings = ()
        if not isinstance(item, Undecodable):
            item, values = self._indexed(item)
        self._drop(key)
        if isinstance(item, Undecodable):
            self._undecodable[key] = item
            return item
        self._objects[key] = item
        if values:
            self._posted[key] = values
        for name, value in values:
            self._postings[name].setdefault(value, {})[key] = None
        return item

    def _indexed(self, item: R) -> tuple[R | Undecodable, _Postings]:
        """Return the object with its values of every index."""
        found: list[tuple[str, str]] = []
        for name, index in self._indexes.items():
            try:
                found += [(name, value) for value in index(item)]
            except Exception as error:  # noqa: BLE001 an index's mistake must not stop a kind
                _log.exception("an index failed", kind=self.kind, object=item.metadata.key, index=name)
                text = f"index {name}: {type(error).__name__} {error}"
                return Undecodable(kind=type(item).KIND, metadata=item.metadata, error=text), ()
        return item, tuple(found)

    def _drop(self, key: Key) -> None:
        self._undecodable.pop(key, None)
        self._objects.pop(key, None)
        for name, value in self._posted.pop(key, ()):
            keys = self._postings[name].get(value, {})
            keys.pop(key, None)
            if not keys:
                self._postings[name].pop(value, None)


def _version(item: Resource | Undecodable) -> tuple[str, str, bool]:
    metadata = item.metadata
    return metadata.uid, metadata.resource_version, isinstance(item, Undecodable)
