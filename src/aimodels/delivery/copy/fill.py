"""Fills a claim: layer by layer, each fetched, checked, placed and journaled, then the marker.

What belongs here: the order of steps and resuming. What does not: bytes (``sink``), paths (``volume``).

A layer counts when its file is synced, renamed into the model and journaled. Killed before that, the next
attempt hashes what is in the part and goes on behind it; a part that turns out wrong at its end is dropped
and fetched once more from its beginning.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import os
import time
from typing import TYPE_CHECKING

from aimodels.delivery.copy import marker
from aimodels.delivery.copy.journal import COMPLETE, Placed
from aimodels.delivery.copy.outcome import Mismatch, VolumeFull
from aimodels.delivery.copy.unpack import unpack, write_all
from aimodels.delivery.copy.volume import PART, refusing
from opskit.logging import logger

if TYPE_CHECKING:
    from aimodels.delivery.copy.journal import Journal
    from aimodels.delivery.copy.plan import Plan
    from aimodels.delivery.copy.sink import Sink
    from aimodels.delivery.copy.volume import Volume
    from modelio.registry import DirectReads
    from modelkit.modelpack import Layer

#: Below this size going around the page cache gains nothing.
_DIRECT_ABOVE = 8 << 20
_MARKER_PART = "marker"
_FETCHES = 2

_log = logger(__name__)


class Filler:
    """One copy of one artifact into one volume."""

    def __init__(
        self, reads: DirectReads, repository: str, plan: Plan, *, volume: Volume, sink: Sink
    ) -> None:
        self._reads = reads
        self._repository = repository
        self._plan = plan
        self._volume = volume
        self._sink = sink

    async def fill(self, journal: Journal) -> None:
        """Do what the journal does not have yet."""
        if COMPLETE in journal.done:
            return
        todo = [layer for layer in self._plan.layers if step(layer) not in journal.done]
        self._refuse_if_too_small(todo)
        for layer in todo:
            with refusing("written"):
                begun = time.monotonic()
                placed = await self._layer(layer, journal)
                await asyncio.to_thread(journal.finish, step(layer), placed)
            _log.info(
                "layer placed",
                path=layer.path,
                bytes=layer.size,
                duration_ms=round((time.monotonic() - begun) * 1000),
            )
        with refusing("written"):
            await asyncio.to_thread(self._mark, journal)

    async def _layer(self, layer: Layer, journal: Journal) -> list[Placed]:
        part = layer.digest.partition(":")[2] + PART
        await self._fetch_checked(layer, part)
        if layer.encoding == "raw":
            await asyncio.to_thread(self._volume.place, part, layer.path)
            return [Placed(layer.path, layer.size)]
        others = [each.path for each in self._plan.layers if each.encoding == "raw"]
        others += [file.path for files in journal.done.values() for file in files]
        placed = await asyncio.to_thread(unpack, self._volume, part, set(others))
        self._volume.drop_part(part)
        return placed

    async def _fetch_checked(self, layer: Layer, part: str) -> None:
        for _ in range(_FETCHES):
            digest = await self._fetch(layer, part)
            if digest == layer.digest:
                return
            _log.warning("layer has another digest", path=layer.path, want=layer.digest, got=digest)
            self._volume.drop_part(part)
        raise Mismatch(
            f"{layer.path} was read {_FETCHES} times and has the digest {digest}: not what is stored"
        )

    async def _fetch(self, layer: Layer, part: str) -> str:
        """Read the layer into its part, from where an earlier attempt left it; return its digest."""
        hasher = hashlib.sha256()
        direct = self._volume.direct and layer.size > _DIRECT_ABOVE
        descriptor = self._volume.open_part(part, direct=direct)
        try:
            start = await self._sink.prefix(descriptor, hasher, layer.size)
            read = functools.partial(self._reads.into, self._repository, layer.digest)
            await self._sink.write(descriptor, range(start, layer.size), read, hasher)
        finally:
            os.close(descriptor)
        return f"sha256:{hasher.hexdigest()}"

    def _refuse_if_too_small(self, todo: list[Layer]) -> None:
        needed = sum(layer.size for layer in todo) - self._volume.staged_bytes()
        free = self._volume.free_bytes()
        if needed > free:
            raise VolumeFull(
                f"the model needs {needed} more bytes, the volume has {free} free: the claim must be larger"
            )

    def _mark(self, journal: Journal) -> None:
        files = [file for files in journal.done.values() for file in files]
        self._volume.drop_part(_MARKER_PART)
        descriptor = self._volume.open_part(_MARKER_PART, direct=False)
        try:
            write_all(descriptor, marker.marker(self._plan.artifact, files))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._volume.place(_MARKER_PART, marker.PATH)
        journal.finish(COMPLETE, [])


def step(layer: Layer) -> str:
    """Return a layer's name in the journal."""
    return f"{layer.digest} {layer.path}"
