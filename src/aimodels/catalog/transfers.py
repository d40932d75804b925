"""What DMCR says about all transfers that are on: asked once a second for everybody, while anybody needs it.

What belongs here: the poll, its snapshot, speeds, and who is told about changes. What does not: what a change
means (``decide``).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aimodels.catalog.names import is_upload, uid_of
from aimodels.catalog.state import Bytes
from modelio.registry import RegistryError, TransferProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from aimodels.catalog.registry import Registry
    from modelio.registry import Purpose
    from opskit.clock import Clock

PERIOD = 1.0
#: weight of the newest second in a speed
_FRESHNESS = 0.4


@dataclass(frozen=True)
class _Reader:
    prefixes: tuple[str, ...]
    needed: Callable[[], bool]
    changed: Callable[[Iterable[TransferProgress]], None]

    def tell(self, items: Iterable[TransferProgress]) -> None:
        concerned = [item for item in items if item.id.startswith(self.prefixes)]
        if concerned:
            self.changed(concerned)


class TransferBoard:
    """The newest snapshot of all transfers.

    A transfer that was put or revoked after the poll began which made the snapshot is shown as we left it, so
    that nobody acts on what is older than their own act.
    """

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._readers: list[_Reader] = []
        self._items: dict[str, TransferProgress] | None = None
        self._speeds: dict[str, float] = {}
        self._touched: dict[str, tuple[float, TransferProgress | None]] = {}
        self._polled = 0.0
        self._wanted = asyncio.Event()
        self._polling = asyncio.Lock()

    def watch(
        self,
        prefixes: tuple[str, ...],
        *,
        needed: Callable[[], bool],
        changed: Callable[[Iterable[TransferProgress]], None],
    ) -> None:
        """Poll while ``needed`` says so, and tell changes of the transfers that begin with a prefix."""
        self._readers.append(_Reader(prefixes, needed, changed))

    async def known(self) -> bool:
        """Return whether there is a snapshot, after having tried to take one."""
        async with self._polling:
            if self._items is None:
                await self.poll()
            return self._items is not None

    def of(self, uid: str) -> Mapping[str, TransferProgress] | None:
        """Return the transfers of one model, or None before the first snapshot."""
        if self._items is None:
            return None
        return {name: item for name, item in self._items.items() if uid_of(name) == uid}

    def get(self, name: str) -> TransferProgress | None:
        """Return one transfer as last seen; None when it is not on or nothing was seen yet."""
        return None if self._items is None else self._items.get(name)

    def bytes_of(self, item: TransferProgress) -> Bytes:
        """Return how far a transfer is; a publication has read or found stored so much of its source."""
        moved = item.offset
        if not is_upload(item.id):
            moved = max(moved, item.delivered_bytes, item.received_bytes)
        if item.expected_bytes is not None:
            moved = min(moved, item.expected_bytes)
        return Bytes(moved, item.expected_bytes, self._speeds.get(item.id), item.last_progress_time)

    def wake(self) -> None:
        """Have the poll begin if it rests."""
        self._wanted.set()

    def put(self, name: str, purpose: Purpose, repository: str) -> None:
        """Show a transfer that was just allowed."""
        item = TransferProgress(id=name, purpose=purpose, repository=repository)
        if self._items is not None:
            item = self._items.setdefault(name, item)
        self._touched[name] = (self._clock.monotonic(), item)
        self.wake()

    def revoked(self, name: str) -> None:
        """Stop showing a transfer that was just revoked."""
        self._touched[name] = (self._clock.monotonic(), None)
        if self._items is not None:
            self._items.pop(name, None)

    async def run(self) -> None:
        """Poll for ever, resting while nobody needs it."""
        while True:
            if not any(reader.needed() for reader in self._readers):
                self._items = None
                self._wanted.clear()
                await self._wanted.wait()
                continue
            async with self._polling:
                await self.poll()
            await self._clock.sleep(PERIOD)

    async def poll(self) -> None:
        """Take one snapshot and tell what changed; an error leaves the last one standing."""
        began = self._clock.monotonic()
        try:
            client = await self._registry.client()
            items = {item.id: item for item in await client.list_transfers()}
        except RegistryError as error:
            self._registry.failed(error)
            return
        self._registry.answered()
        for name, (when, shown) in list(self._touched.items()):
            if when < began:
                del self._touched[name]
            elif shown is None:
                items.pop(name, None)
            else:
                items.setdefault(name, shown)
        self._take(items, began)

    def _take(self, items: dict[str, TransferProgress], began: float) -> None:
        old, elapsed = self._items or {}, began - self._polled
        self._speeds = {
            name: self._speed(name, before, item, elapsed)
            for name, item in items.items()
            if (before := old.get(name)) is not None
        }
        differing = [item for name, item in items.items() if old.get(name) != item]
        gone = [item for name, item in old.items() if name not in items]
        self._items, self._polled = items, began
        for reader in self._readers:
            reader.tell([*differing, *gone])

    def _speed(self, name: str, before: TransferProgress, item: TransferProgress, elapsed: float) -> float:
        new = max(0, self.bytes_of(item).moved - self.bytes_of(before).moved) / max(elapsed, 0.001)
        old = self._speeds.get(name)
        return new if old is None else old + _FRESHNESS * (new - old)


def tags_of(items: Iterable[TransferProgress]) -> dict[str, str]:
    """Return the tags of the repository that these transfers of one model share."""
    found: dict[str, str] = {}
    for item in items:
        found |= item.tags
    return found
