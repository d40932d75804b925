"""What was written last of an order, so that a reconcile that changes nothing writes nothing.

What belongs here: remembering it, and telling whether it still stands. What does not: writing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiinference.workload import frozen, names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubekit.resources import StatefulSet
    from kubekit.resources.meta import ObjectMeta
    from opskit.clock import Clock

#: after so long what is there is made so again, whoever has changed it
REPAIR_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class _Applied:
    """All objects of an order, as they were applied."""

    uid: str
    digest: str
    #: of the StatefulSet: somebody who changes it raises it
    generation: int
    #: digest of what it says that it was made from; None when it was left as it is
    record: str | None
    at: float


class Standing:
    """Remembers it of all orders."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._applied: dict[tuple[str, str], _Applied] = {}
        #: uid of an order, and digest of the record that was put on its StatefulSet last
        self._records: dict[tuple[str, str], tuple[str, str]] = {}

    def record(self, order: ObjectMeta) -> str | None:
        """Return the digest of what was written last of the making of an order's Pods."""
        uid, digest = self._records.get(order.key, ("", ""))
        return digest if uid == order.uid else None

    def made(self, order: ObjectMeta, annotations: Mapping[str, str]) -> str:
        """Remember what was put on the StatefulSet, whatever becomes of the other objects."""
        digest = frozen.digest(annotations)
        self._records[order.key] = (order.uid, digest)
        return digest

    def applied(self, order: ObjectMeta, digest: str, generation: int, record: str | None) -> None:
        """Remember that everything is as it should be."""
        self._applied[order.key] = _Applied(order.uid, digest, generation, record, self._clock.monotonic())

    def stands(self, order: ObjectMeta, digest: str, workload: StatefulSet | None) -> bool:
        """Tell whether exactly this was applied, lately, and the StatefulSet was not changed since."""
        known = self._applied.get(order.key)
        if known is None or workload is None or (known.uid, known.digest) != (order.uid, digest):
            return False
        # The store may lag behind what was just written, never run ahead of it.
        head = workload.metadata
        if not names.labels(order.name).items() <= head.labels.items():
            return False  # which raises no generation
        same = known.record is None or frozen.digest(head.annotations) == known.record
        fresh = head.generation < known.generation or (head.generation == known.generation and same)
        return fresh and self._clock.monotonic() - known.at < REPAIR_SECONDS

    def forget(self, key: tuple[str, str]) -> None:
        """Remember nothing more of an order that is gone."""
        self._applied.pop(key, None)
        self._records.pop(key, None)
