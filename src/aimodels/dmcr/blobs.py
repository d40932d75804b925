"""Blobs: reading their pointers, and the swaps on them that pushers need.

What belongs here: HEAD with its lease, mount, rescue, the pointer write of an upload, DELETE in a repository
(4.1, 4.2.7, 4.3.4, 4.5 of the protocol). What does not: sessions and bytes on their way in.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from aimodels.dmcr.layout import Pointer, Reader, Record, data_key, pointer_key
from aimodels.dmcr.problems import Conflict, NotFound, TryAgain, Unsupported
from aimodels.dmcr.swaps import Held, Lost, Swaps
from objectstore.port import NoSuchKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

#: answered from memory, never stored: their pointers would have to name every repository
WELL_KNOWN = {
    f"{algorithm}:{hashlib.new(algorithm, body).hexdigest()}": body
    for algorithm in ("sha256", "sha512")
    for body in (b"", b"{}")
}
#: what HEAD, mount and upload promise, in seconds
LEASE = 24 * 3600
#: a swap that keeps losing is left to the client after so many rounds
_ROUNDS = 50


class BytesGone(Exception):
    """The bytes of the upload that claims a pointer were given up or lost meanwhile."""


class Blobs:
    """The pointers of one bucket."""

    def __init__(self, swaps: Swaps) -> None:
        self._swaps = swaps

    async def load(self, digest: str) -> Held[Pointer] | None:
        """Return the pointer as it is now."""
        return await self._swaps.load(pointer_key(digest), Pointer)

    async def usable(self, held: Held[Pointer] | None, life: str) -> bool:
        """Tell whether a manifest of that life may name the blob: authorised, not leaving, bytes there."""
        if held is None or held.value.state == "dead":
            return False
        reader = held.value.repos.get(life)
        return reader is not None and not reader.leaving and await self.has(held.value)

    async def has(self, pointer: Pointer) -> bool:
        """Tell whether the bytes are there, whole."""
        if pointer.data is None:
            return False
        try:
            info = await self._swaps.store.head(data_key(pointer.data))
        except NoSuchKey:
            return False
        return info.size == pointer.size

    async def readable(self, digest: str, record: Record) -> Pointer:
        """Return the pointer of a blob that the repository may read; BLOB_UNKNOWN otherwise."""
        held = await self.load(digest)
        if held is None or held.value.state == "dead" or record.life not in held.value.repos:
            raise unknown(digest, record.name)
        return held.value

    async def lease(self, digest: str, record: Record) -> Pointer:
        """Answer HEAD for a pusher: the blob is not condemned for a day while the repository stays open."""
        for _ in range(_ROUNDS):
            held = await self.load(digest)
            if held is None or not await self.usable(held, record.life):
                raise unknown(digest, record.name)
            if self._promised(held.value, record.life):
                return held.value
            written = await self._swap(digest, held, self._joined(held.value, record))
            if written is not None:
                return written
        raise _busy(digest)

    async def mount(self, digest: str, source: Record, target: Record) -> Pointer | None:
        """Let the target read what the source has; None when the source's blob is not usable."""
        for _ in range(_ROUNDS):
            held = await self.load(digest)
            if held is None or not await self.usable(held, source.life):
                return None
            if self._promised(held.value, target.life):
                return held.value
            written = await self._swap(digest, held, self._joined(held.value, target))
            if written is not None:
                return written
        raise _busy(digest)

    async def rescue(self, digest: str, life: str) -> Pointer | None:
        """Return the pointer, live again if it was condemned, or None when a manifest may not name it."""
        for _ in range(_ROUNDS):
            held = await self.load(digest)
            if held is None or not await self.usable(held, life):
                return None
            if held.value.state == "live":
                return held.value
            written = await self._swap(digest, held, self._alive(held.value))
            if written is not None:
                return written
        raise _busy(digest)

    async def claim(self, held: Held[Pointer] | None, digest: str, claim: Claim) -> bool:
        """Write the pointer for an upload by what was read (4.2.7). False: read, seal and try again.

        Bytes that are on the pointer's trash already were given up by an earlier try of this very upload and
        may be deleted at any moment: a pointer that would need them is not written.
        """
        reader = Reader(repo=claim.repo, until=self._swaps.now() + LEASE)
        old = held.value if held else Pointer(state="dead", since=0)
        if old.state != "dead" and (old.data == claim.dkey or await self._surely_has(old)):
            return await self._claim_duplicate(held, digest, claim, reader)
        if claim.dkey == old.data or claim.dkey in old.trash:
            raise BytesGone(digest)
        trash = (*old.trash, old.data) if old.data else old.trash
        pointer = Pointer(
            state="live",
            since=self._swaps.now(),
            data=claim.dkey,
            size=claim.size,
            repos={**old.repos, claim.life: reader},
            trash=trash,
        )
        return await self._write(digest, held, pointer)

    async def _claim_duplicate(
        self, held: Held[Pointer] | None, digest: str, claim: Claim, reader: Reader
    ) -> bool:
        """Add the life to a pointer that has its bytes; ours, when they are others, go on its trash."""
        if held is None:
            raise AssertionError("a pointer with bytes was read")
        old = held.value
        if old.data == claim.dkey and not await self.has(old):
            raise BytesGone(digest)
        trash = old.trash
        if claim.dkey not in (old.data, *trash):
            trash = (*trash, claim.dkey)
        pointer = replace(self._alive(old), repos={**old.repos, claim.life: reader}, trash=trash)
        return await self._write(digest, held, pointer)

    async def leave(self, digest: str, record: Record, used: Callable[[], Awaitable[bool]]) -> None:
        """Delete the blob in the repository (4.5): flag, look whether it is in use, drop the life."""
        for _ in range(_ROUNDS):
            held = await self.load(digest)
            reader = held.value.repos.get(record.life) if held and held.value.state != "dead" else None
            if held is None or reader is None:
                raise unknown(digest, record.name)
            leaving = {**held.value.repos, record.life: replace(reader, leaving=True)}
            flagged = await self._swap_held(digest, held, replace(held.value, repos=leaving))
            if flagged is None:
                continue
            if await used():
                stays = {**flagged.value.repos, record.life: replace(reader, leaving=False)}
                if await self._swap(digest, flagged, replace(flagged.value, repos=stays)) is None:
                    continue
                raise Conflict(f"a push into {record.name} may use blob {digest}: it stays", code="DENIED")
            rest = {life: other for life, other in flagged.value.repos.items() if life != record.life}
            if await self._swap(digest, flagged, replace(flagged.value, repos=rest)) is not None:
                return
        raise _busy(digest)

    async def _surely_has(self, pointer: Pointer) -> bool:
        """Only two answers that the bytes are absent are believed: healing moves them to the trash."""
        return await self.has(pointer) or await self.has(pointer)

    def _promised(self, pointer: Pointer, life: str) -> bool:
        """Tell whether the promise stands for half a lease yet, so that nothing need be written."""
        reader = pointer.repos.get(life)
        if reader is None or reader.leaving or pointer.state != "live":
            return False
        return reader.until - self._swaps.now() >= LEASE // 2

    def _joined(self, pointer: Pointer, record: Record) -> Pointer:
        reader = Reader(repo=record.name, until=self._swaps.now() + LEASE)
        return replace(self._alive(pointer), repos={**pointer.repos, record.life: reader})

    def _alive(self, pointer: Pointer) -> Pointer:
        return pointer if pointer.state == "live" else replace(pointer, state="live", since=self._swaps.now())

    async def _swap(self, digest: str, held: Held[Pointer], pointer: Pointer) -> Pointer | None:
        written = await self._swap_held(digest, held, pointer)
        return written.value if written else None

    async def _swap_held(self, digest: str, held: Held[Pointer], pointer: Pointer) -> Held[Pointer] | None:
        try:
            return await self._swaps.swap(pointer_key(digest), held, pointer)
        except Lost:
            return None

    async def _write(self, digest: str, held: Held[Pointer] | None, pointer: Pointer) -> bool:
        if held is not None:
            return await self._swap_held(digest, held, pointer) is not None
        try:
            await self._swaps.new(pointer_key(digest), pointer)
        except Lost:
            return False
        return True


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What an upload brings to its blob's pointer."""

    life: str
    repo: str
    dkey: str
    size: int


def unknown(digest: str, name: str) -> NotFound:
    """Return the refusal for a blob that the repository does not have."""
    return NotFound(f"repository {name} has no blob {digest}")


def in_use(digest: str, name: str) -> Unsupported:
    """Return the refusal for a blob that a manifest of the repository names."""
    return Unsupported(f"a manifest of {name} uses blob {digest}: delete the manifest first")


def _busy(digest: str) -> TryAgain:
    return TryAgain(f"the pointer of {digest} changes faster than it can be changed here: try again")
