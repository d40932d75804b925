"""Which copies run: at most so many at once, first come first served.

What belongs here: counting and order. What does not: starting a copy (``act``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from aimodels.delivery.names import DeliveryKey


class Slots:
    """Places for copies.

    One that was just begun counts before the informer shows it; whoever finds it shown lets it ``leave``.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._begun: dict[DeliveryKey, None] = {}
        #: who waits, in order, and why it did not run when it had a place
        self._waiting: dict[DeliveryKey, str] = {}

    def take(self, key: DeliveryKey, busy: Collection[DeliveryKey]) -> bool:
        """Tell whether the copy may begin now; otherwise it keeps its place in the line."""
        for seen in busy:
            self._begun.pop(seen, None)
        held = {*busy, *self._begun}
        if key in held:
            return True
        self._waiting.setdefault(key, "")
        next_ones = [*self._waiting][: max(0, self.limit - len(held))]
        if key not in next_ones:
            return False
        del self._waiting[key]
        self._begun[key] = None
        return True

    def leave(self, key: DeliveryKey) -> None:
        """Give up the place, in the line or at work."""
        self._waiting.pop(key, None)
        self._begun.pop(key, None)

    def step_back(self, key: DeliveryKey, why: str) -> None:
        """Give up the place at work for one at the end of the line."""
        self.leave(key)
        self._waiting[key] = why

    def why(self, key: DeliveryKey) -> str:
        """Return why one that waits did not run when it had a place; empty when it had none yet."""
        return self._waiting.get(key, "")

    def crowded(self, key: DeliveryKey) -> bool:
        """Tell whether others wait."""
        return any(one != key for one in self._waiting)

    @property
    def waiting(self) -> tuple[DeliveryKey, ...]:
        """Return who waits, in order."""
        return tuple(self._waiting)
