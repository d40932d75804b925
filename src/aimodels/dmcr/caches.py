"""Bounded memory of what was read: least recently used goes first.

What belongs here: the bound. What does not: whether an entry still holds; callers ask the store.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

V = TypeVar("V")


class Cache(Generic[V]):
    """A mapping that forgets, bounded by the sum of the weights of its entries."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._weight = 0
        self._entries: OrderedDict[str, tuple[V, int]] = OrderedDict()

    def get(self, key: str) -> V | None:
        """Return the entry, which is now the most recently used one."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: str, value: V, weight: int) -> None:
        """Keep the entry if it fits at all; others make room."""
        self.drop(key)
        if weight > self._most:
            return
        self._entries[key] = (value, weight)
        self._weight += weight
        while self._weight > self._most:
            _, (_, freed) = self._entries.popitem(last=False)
            self._weight -= freed

    def drop(self, key: str) -> None:
        """Forget the entry."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._weight -= entry[1]
