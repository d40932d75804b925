"""The boot probe: does the store really do what the registry's safety rests on?

Sixteen writers race for one key, once creating it and once swapping it, and exactly one may win; a swap of a
missing key must fail; what was written must be read back at once. Some services answer the headers without
keeping the promise, which no documentation tells.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from objectstore.port import NoSuchKey, PreconditionFailed

if TYPE_CHECKING:
    from objectstore.port import ObjectStore

WRITERS = 16
_NEVER_AN_ETAG = "00000000000000000000000000000000"


async def probe(store: ObjectStore, prefix: str = "probe/") -> list[str]:
    """Return what is wrong with the store, each a sentence; empty means fit. Its keys are deleted again."""
    key = prefix + secrets.token_hex(16)
    try:
        return [*await _racing(store, key), *await _missing(store, key + "-missing")]
    finally:
        await store.delete(key)
        await store.delete(key + "-missing")


async def _racing(store: ObjectStore, key: str) -> list[str]:
    wrong = []
    created = await _race(store, key, if_match=None)
    if len(created) != 1:
        wrong.append(f"If-None-Match is not atomic: {len(created)} of {WRITERS} writers created one key")
    found = await store.get(key)
    swapped = await _race(store, key, if_match=found.etag)
    if len(swapped) != 1:
        wrong.append(f"If-Match is not atomic: {len(swapped)} of {WRITERS} writers replaced one version")
    found = await store.get(key)
    if swapped and found.body not in swapped:
        wrong.append("a read after a write returned something else than the winner's bytes")
    return wrong


async def _race(store: ObjectStore, key: str, *, if_match: str | None) -> list[bytes]:
    """Return the bodies of the writers that were told they won."""

    async def one(body: bytes) -> bytes | None:
        try:
            await store.put(key, body, if_match=if_match, if_none_match=if_match is None)
        except PreconditionFailed:
            return None
        return body

    outcomes = await asyncio.gather(*(one(secrets.token_bytes(32)) for _ in range(WRITERS)))
    return [body for body in outcomes if body is not None]


async def _missing(store: ObjectStore, key: str) -> list[str]:
    try:
        await store.put(key, b"must not be stored", if_match=_NEVER_AN_ETAG)
    except PreconditionFailed:
        pass
    else:
        return ["If-Match on a missing key creates it"]
    try:
        await store.head(key)
    except NoSuchKey:
        return []
    return ["If-Match on a missing key fails, and yet the key exists"]
