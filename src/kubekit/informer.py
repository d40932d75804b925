"""One kind, followed and kept: a watcher, a store, and those who want to know what changed.

What belongs here: turning events into changes and changes into keys. What does not: deciding anything.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

from kubekit.queue import K, KeyedQueue, Priority
from kubekit.resources.meta import Resource
from kubekit.store import Change, Store
from kubekit.watch import Relisted, Watcher, WatchTiming
from kubekit.wire import Applied, Deleted, Undecodable
from opskit import logging, metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kubekit.client import Client, Params
    from kubekit.store import Index

R = TypeVar("R", bound=Resource)

_log = logging.logger(__name__)

_UNDECODABLE = metrics.gauge("undecodable_objects", "Objects that could not be decoded.", ["kind"])
_WATCH_AGE = metrics.gauge("watch_age_seconds", "Since the API server was last heard.", ["kind"])


class Informer(Generic[R]):
    """Keeps ``store`` equal to the API server's state, and tells subscribers every difference once."""

    def __init__(
        self,
        client: Client,
        struct: type[R],
        *,
        namespace: str | None = None,
        selectors: Params | None = None,
        indexes: Mapping[str, Index[R]] | None = None,
        timing: WatchTiming | None = None,
    ) -> None:
        self.kind = struct.KIND.name
        self.store: Store[R] = Store(self.kind, indexes)
        self.synced = asyncio.Event()
        self._watcher = Watcher(client, struct, namespace=namespace, selectors=selectors, timing=timing)
        self._subscribers: list[Callable[[Change[R], Priority], None]] = []
        self.on_unreadable: Callable[[Undecodable], None] = _ignore

    def subscribe(self, subscriber: Callable[[Change[R], Priority], None]) -> None:
        """Call the subscriber with every change: LOW for what a list told, HIGH for what the watch told."""
        self._subscribers.append(subscriber)

    def feed(self, queue: KeyedQueue[K], keys: Callable[[Change[R]], Iterable[K]]) -> None:
        """Add the keys that a change concerns to the queue."""

        def add(change: Change[R], priority: Priority) -> None:
            for key in keys(change):
                queue.add(key, priority)

        self.subscribe(add)

    async def run(self) -> None:
        """Follow the kind for ever."""
        await self._watcher.run(self._take)

    def age(self) -> float:
        """Return for how many seconds nothing was heard from the server."""
        age = self._watcher.age()
        _WATCH_AGE.labels(self.kind).set(age)
        return age

    def _take(self, event: Relisted[R] | Applied[R] | Deleted[R]) -> None:
        if isinstance(event, Relisted):
            for change in self.store.replace(event.items):
                self._tell(change, Priority.LOW)
            self.synced.set()
        elif isinstance(event, Applied):
            self._tell(self.store.apply(event.object), Priority.HIGH)
        else:
            self._tell(self.store.remove(event.object.metadata.key), Priority.HIGH)
        _UNDECODABLE.labels(self.kind).set(len(self.store.undecodable))

    def _tell(self, change: Change[R] | None, priority: Priority) -> None:
        if change is None:
            return
        bad = self.store.undecodable.get(change.key)
        if bad is not None:
            _log.error("object cannot be read", kind=self.kind, object=change.key, reason=bad.error)
            self.on_unreadable(bad)
        for subscriber in self._subscribers:
            try:
                subscriber(change, priority)
            except Exception as error:  # noqa: BLE001 a mapper's mistake must not stop a kind
                _log.exception("a mapper failed", kind=self.kind, object=change.key, err=error)


def _ignore(_bad: Undecodable) -> None:
    """Nobody wants to be told."""
