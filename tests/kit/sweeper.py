"""The protocol's collector in its smallest form: what a collector may do to the bucket, step by step.

It knows no times: leases count as lapsed whenever it runs, and quarantine is over at once, which the protocol
allows for everything but the promise of HEAD.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from msgspec.structs import replace

from aimodels.dmcr import layout
from aimodels.dmcr.documents import referenced
from aimodels.dmcr.layout import Pointer, Record, Session
from aimodels.dmcr.swaps import Held, Lost, Swaps, Unclear
from objectstore.port import NoSuchKey

if TYPE_CHECKING:
    from objectstore.port import ObjectStore


class Sweeper:
    """One collector; ``cycle`` may be stopped anywhere, for ever or for a while."""

    def __init__(self, swaps: Swaps) -> None:
        self._swaps = swaps
        self._store: ObjectStore = swaps.store

    async def cycle(self) -> None:
        """Sessions, then pointers read, then marked, then swapped, then trash: in the protocol's order."""
        await self.cancel_sealed()
        snapshot = {
            key: held
            for key in await self._keys("blobs/")
            if (held := await self._swaps.load(key, Pointer)) is not None
        }
        for key, held in snapshot.items():
            used = await self._used(key, held.value)
            with contextlib.suppress(Lost, Unclear):
                await self._judge(key, held, used=used)
        for key in snapshot:
            await self._empty_trash(key)

    async def cancel_sealed(self) -> None:
        """Take sealed sessions from their owners, their bytes through the pointer (5.3)."""
        for key in await self._keys("uploads/"):
            if not key.endswith(".json"):
                continue
            held = await self._swaps.load(key, Session)
            if held is None or held.value.state not in ("sealed", "cancelled"):
                continue
            with contextlib.suppress(Lost, Unclear):
                await self._cancel(key, held)

    async def _cancel(self, key: str, held: Held[Session]) -> None:
        if held.value.state == "sealed":
            held = await self._swaps.swap(key, held, replace(held.value, state="cancelled"))
        session = held.value
        pointer_key = layout.pointer_key(session.digest or "")
        pointer = await self._swaps.load(pointer_key, Pointer)
        if pointer is None:
            await self._swaps.new(pointer_key, Pointer(state="dead", since=1, trash=(session.data or "",)))
        elif pointer.value.data != session.data and session.data not in pointer.value.trash:
            trash = (*pointer.value.trash, session.data or "")
            await self._swaps.swap(pointer_key, pointer, replace(pointer.value, trash=trash))
        await self._swaps.swap(key, held, replace(session, state="void"))

    async def _used(self, key: str, pointer: Pointer) -> bool:
        """Look into every repository that it names; pending manifests count once their bytes are there."""
        _, algorithm, _, name = key.removesuffix(".json").split("/")
        digest = f"{algorithm}:{name}"
        for life, reader in pointer.repos.items():
            record = await self._swaps.load(layout.record_key(reader.repo), Record)
            if record is None:
                return True
            if record.value.state != "open" or record.value.life != life:
                continue
            manifests, pending = record.value.manifests, record.value.pending
            for at in [*(e.key for e in manifests.values()), *(e.key for e in pending.values())]:
                try:
                    body = (await self._store.get(at)).body
                except NoSuchKey:
                    continue
                if digest in referenced(body):
                    return True
        return False

    async def _judge(self, key: str, held: Held[Pointer], *, used: bool) -> None:
        pointer = held.value
        if pointer.state == "live" and not used:
            await self._swaps.swap(key, held, replace(pointer, state="condemned"))
        elif pointer.state == "condemned" and used:
            await self._swaps.swap(key, held, replace(pointer, state="live"))
        elif pointer.state == "condemned":
            trash = (*pointer.trash, pointer.data or "")
            await self._swaps.swap(key, held, Pointer(state="dead", since=1, trash=trash))

    async def _empty_trash(self, key: str) -> None:
        held = await self._swaps.load(key, Pointer)
        while held is not None and held.value.trash:
            data = held.value.trash[0]
            await self._store.delete(layout.data_key(data))
            try:
                held = await self._swaps.swap(key, held, replace(held.value, trash=held.value.trash[1:]))
            except (Lost, Unclear):
                return

    async def _keys(self, prefix: str) -> list[str]:
        return [key async for key in self._store.list(prefix)]
