"""Manifests: the commit of a push, and what a repository answers about its manifests (4.3, 4.4, 4.6).

What belongs here: PUT, GET, DELETE, tags, referrers, blob use. What does not: the record's swap itself
(``repositories``), the document's syntax (``documents``).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from aimodels.dmcr import documents, names
from aimodels.dmcr.blobs import WELL_KNOWN, in_use
from aimodels.dmcr.caches import Cache
from aimodels.dmcr.documents import Descriptor, Manifest
from aimodels.dmcr.layout import ManifestEntry, PendingEntry, Record, manifest_key
from aimodels.dmcr.problems import NotFound, RegistryProblem, TryAgain
from aimodels.dmcr.repositories import opened
from aimodels.dmcr.swaps import Unclear
from objectstore.port import NoSuchKey, ObjectStoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aimodels.dmcr.blobs import Blobs
    from aimodels.dmcr.repositories import Edit, Repositories
    from aimodels.dmcr.swaps import Swaps

_CACHE_BYTES = 32 << 20
_IN_PARALLEL = 32


class Push(msgspec.Struct, frozen=True, kw_only=True):
    """One manifest on its way in, for the life of the repository that its pusher was let into."""

    name: str
    life: str
    digest: str
    body: bytes
    tags: tuple[str, ...]
    by: str


class Manifests:
    """The manifests of one bucket's repositories."""

    def __init__(self, swaps: Swaps, repositories: Repositories, blobs: Blobs) -> None:
        self._swaps = swaps
        self._repositories = repositories
        self._blobs = blobs
        self._cache: Cache[bytes] = Cache(_CACHE_BYTES)

    async def put(self, push: Push, manifest: Manifest) -> None:
        """Commit: pending entry, bytes, then every blob looked at, then the swap that makes it visible."""
        record = _same_life(await self._repositories.get(push.name), push.name, push.life)
        known = record.manifests.get(push.digest)
        if known is not None and await self._has(known) and await self._retag(push):
            return
        pid = self._swaps.fresh()
        entry = _entry(push, manifest, manifest_key(push.name, pid), self._swaps.now())
        await self._repositories.change(push.name, _pending(push, pid, entry))
        try:
            await self._swaps.store.put(entry.key, push.body)
            await self._validate(manifest, push.life)
            await self._repositories.change(push.name, _committing(push, pid, entry))
        except (RegistryProblem, ObjectStoreError, Unclear):
            await self._take_back(push.name, pid)
            raise

    async def get(self, record: Record, reference: str) -> tuple[str, ManifestEntry, bytes]:
        """Return digest, entry and bytes of a tag or digest; MANIFEST_UNKNOWN otherwise."""
        digest = reference if names.is_digest(reference) else record.tags.get(reference, "")
        entry = record.manifests.get(digest)
        if entry is None:
            raise unknown(reference, record.name)
        return digest, entry, await self._bytes(entry)

    async def delete(self, name: str, life: str, reference: str) -> None:
        """Remove a tag, or a manifest with every tag on it."""

        def edit(record: Record | None) -> Record:
            record = _same_life(record, name, life)
            self._repositories.owned(record)
            if not names.is_digest(reference):
                if reference not in record.tags:
                    raise unknown(reference, name)
                return replace(record, tags={tag: to for tag, to in record.tags.items() if tag != reference})
            if reference not in record.manifests:
                raise unknown(reference, name)
            return replace(
                record,
                tags={tag: to for tag, to in record.tags.items() if to != reference},
                manifests={
                    digest: entry for digest, entry in record.manifests.items() if digest != reference
                },
            )

        await self._repositories.change(name, edit)

    async def delete_blob(self, record: Record, digest: str) -> None:
        """Take a blob out of the repository, unless a manifest there uses it or may come to use it."""
        name = record.name
        self._repositories.owned(record)
        if await self._uses(record, digest):
            raise in_use(digest, name)

        async def used() -> bool:
            now = await self._repositories.find(name)
            return bool(now.pending) or await self._uses(now, digest)

        await self._blobs.leave(digest, record, used)

    async def closure(self, record: Record, digest: str) -> frozenset[str]:
        """Return the manifest, its children and every blob that they name."""
        found: set[str] = set()
        open_ends = [digest]
        while open_ends:
            item = open_ends.pop()
            entry = record.manifests.get(item)
            if item in found or entry is None:
                continue
            found.add(item)
            open_ends.extend(entry.children)
            found.update(documents.referenced(await self._bytes(entry)))
        return frozenset(found)

    async def referrers(self, record: Record, subject: str) -> list[Descriptor]:
        """Return what names the subject: by its field, or by an index under the fallback tag."""
        found = {
            digest: Descriptor(
                media_type=entry.media_type,
                digest=digest,
                size=entry.size,
                artifact_type=entry.artifact_type,
                annotations=entry.annotations,
            )
            for digest, entry in record.manifests.items()
            if entry.subject == subject
        }
        fallback = record.manifests.get(record.tags.get(subject.replace(":", "-"), ""))
        if fallback is not None:
            for item in documents.descriptors(await self._bytes(fallback)):
                found.setdefault(item.digest, item)
        return [found[digest] for digest in sorted(found)]

    async def _retag(self, push: Push) -> bool:
        """Set the tags on a manifest that is committed already; False when it went meanwhile."""

        def edit(record: Record | None) -> Record:
            record = _same_life(record, push.name, push.life)
            if push.digest not in record.manifests:
                return record
            tags = _with_tags(record, push)
            return record if tags == record.tags else replace(record, tags=tags)

        return push.digest in (await self._repositories.change(push.name, edit)).manifests

    async def _validate(self, manifest: Manifest, life: str) -> None:
        """Rescue every blob, or refuse with those that may not be used."""
        slots = asyncio.Semaphore(_IN_PARALLEL)

        async def usable(digest: str) -> bool:
            async with slots:
                return digest in WELL_KNOWN or await self._blobs.rescue(digest, life) is not None

        good = await asyncio.gather(*(usable(digest) for digest in manifest.blobs))
        missing = [digest for digest, fine in zip(manifest.blobs, good, strict=True) if not fine]
        if missing:
            raise _incomplete(missing)

    async def _take_back(self, name: str, pid: str) -> None:
        """Drop the pending entry; the collector does it where this fails."""

        def edit(record: Record | None) -> Record:
            record = opened(record, name)
            if pid not in record.pending:
                return record
            return replace(record, pending={key: to for key, to in record.pending.items() if key != pid})

        with contextlib.suppress(RegistryProblem, ObjectStoreError, Unclear):
            await self._repositories.change(name, edit)

    async def _uses(self, record: Record, digest: str) -> bool:
        for entry in record.manifests.values():
            if digest in documents.referenced(await self._bytes(entry)):
                return True
        return False

    async def _has(self, entry: ManifestEntry) -> bool:
        """Tell whether the bytes of a committed manifest are there; else it is committed anew."""
        try:
            return (await self._swaps.store.head(entry.key)).size == entry.size
        except NoSuchKey:
            return False

    async def _bytes(self, entry: ManifestEntry) -> bytes:
        """Return manifest bytes, which never change under their key."""
        body = self._cache.get(entry.key)
        if body is None:
            try:
                body = (await self._swaps.store.get(entry.key)).body
            except NoSuchKey:
                raise NotFound(
                    "the bytes of this manifest are missing from the store: push it again",
                    code="MANIFEST_UNKNOWN",
                ) from None
            self._cache.put(entry.key, body, len(body))
        return body


def unknown(reference: str, name: str) -> NotFound:
    """Return the refusal for a manifest or tag that is not there."""
    return NotFound(f"repository {name} has no manifest {reference}", code="MANIFEST_UNKNOWN")


def _entry(push: Push, manifest: Manifest, key: str, now: int) -> ManifestEntry:
    return ManifestEntry(
        key=key,
        media_type=manifest.media_type,
        size=len(push.body),
        at=now,
        blobs=len(manifest.blobs),
        subject=manifest.subject,
        artifact_type=manifest.artifact_type,
        annotations=manifest.annotations if manifest.subject else None,
        children=manifest.children,
    )


def _pending(push: Push, pid: str, entry: ManifestEntry) -> Edit:
    waiting = PendingEntry(digest=push.digest, key=entry.key, at=entry.at, by=push.by)

    def edit(record: Record | None) -> Record:
        record = _same_life(record, push.name, push.life)
        return replace(record, pending={**record.pending, pid: waiting})

    return edit


def _committing(push: Push, pid: str, entry: ManifestEntry) -> Edit:
    """Return the final swap: the entry and all tags of the push at once, while the pending entry stands."""

    def edit(record: Record | None) -> Record:
        record = _same_life(record, push.name, push.life)
        if pid not in record.pending:
            raise TryAgain(f"the push of {push.digest} was taken back meanwhile: push the manifest again")
        missing = [digest for digest in entry.children if digest not in record.manifests]
        if missing:
            raise _incomplete(missing)
        return replace(
            record,
            manifests={**record.manifests, push.digest: entry},
            tags=_with_tags(record, push),
            pending={key: to for key, to in record.pending.items() if key != pid},
        )

    return edit


def _same_life(record: Record | None, name: str, life: str) -> Record:
    record = opened(record, name)
    if record.life != life:
        raise NotFound(f"repository {name} was deleted meanwhile", code="NAME_UNKNOWN")
    return record


def _with_tags(record: Record, push: Push) -> dict[str, str]:
    return {**record.tags, **dict.fromkeys(push.tags, push.digest)}


def _incomplete(missing: Sequence[str]) -> NotFound:
    return NotFound(
        f"the repository does not have {len(missing)} of the blobs or manifests named: push them first",
        code="MANIFEST_BLOB_UNKNOWN",
        detail=[{"digest": digest} for digest in missing[:100]],
    )
