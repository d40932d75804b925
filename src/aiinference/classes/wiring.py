"""Classes in a process: informers to keys, keys to statuses.

What belongs here: who tells whom. What does not: what is said about a class (``decide``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from aiinference.api.classes import InferenceServiceClass
from aiinference.api.fields import API_VERSION
from aiinference.classes.decide import decide
from aiinference.classes.observe import DeviceClass, Observer, PriorityClass
from kubekit.apply import Applier
from kubekit.controller import Controller, Done
from kubekit.queue import KeyedQueue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.manager import Manager
    from kubekit.store import Change
    from opskit.clock import Clock

FIELD_MANAGER = "ai-inference-classes"


class Classes:
    """Keeps the status of every class true."""

    def __init__(self, manager: Manager, clock: Clock, *, devices: bool) -> None:
        self._clock = clock
        self._applier = Applier(manager.client, FIELD_MANAGER)
        queue: KeyedQueue[str] = KeyedQueue("classes")
        classes = manager.informer(InferenceServiceClass)
        priorities = manager.informer(PriorityClass)
        self._classes = classes.store
        classes.feed(queue, lambda change: [change.key[1]])
        priorities.feed(queue, self._named)
        found = None
        if devices:
            informer = manager.informer(DeviceClass)
            informer.feed(queue, self._named)
            found = informer.store
        self._observer = Observer(priorities.store, found)
        manager.add_controller(Controller("classes", queue, self._reconcile, workers=2))

    def _named(self, change: Change[PriorityClass] | Change[DeviceClass]) -> Iterable[str]:
        """Something that classes may name came or went: it concerns every class."""
        if len(change.sides) > 1:
            return []
        return [klass.metadata.name for klass in self._classes.list()]

    async def _reconcile(self, name: str) -> Done:
        klass = self._classes.get("", name)
        if klass is None or klass.metadata.deleting:
            return Done()
        status = decide(self._observer.observe(klass), self._clock.now())
        said = msgspec.to_builtins(status)
        if klass.status is None or msgspec.to_builtins(klass.status) != said:
            metadata = {"name": name, "uid": klass.metadata.uid}
            kind = InferenceServiceClass.KIND.name
            await self._applier.status(
                {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "status": said}
            )
        return Done()


def setup(manager: Manager, clock: Clock, *, devices: bool) -> None:
    """Have the manager look after classes; ``devices`` tells whether the cluster has DeviceClasses."""
    Classes(manager, clock, devices=devices)
