"""The object-store port: the few verbs that DMCR's protocol needs, with S3's semantics.

What belongs here: the abstract store, its values and its errors. What does not: any engine.
Every engine passes one contract suite (``tests/contract/objectstore``), including sixteen writers
that race for one key.

Error tree::

    ObjectStoreError            base; ``retriable`` says whether the same call may succeed later
    ├── NoSuchKey               the key, the multipart upload or the part does not exist
    ├── PreconditionFailed      If-Match or If-None-Match did not hold (412, 409, or 404 on If-Match)
    ├── InvalidPart             a part named at completion is not the one that is stored
    ├── InvalidRange            the range starts behind the end
    ├── StoreUnavailable        time-outs, 5xx, SlowDown; a conditional write may or may not have happened
    ├── StoreDenied             401 and 403: credentials or clock
    └── StoreFull               no space is left
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence


class ObjectStoreError(Exception):
    """Base of everything the port raises; ``retriable`` says whether repeating the call may help."""

    retriable = False


class NoSuchKey(ObjectStoreError):
    """The key, upload or part does not exist."""


class PreconditionFailed(ObjectStoreError):
    """The conditional write lost: read again and decide again."""


class InvalidPart(ObjectStoreError):
    """A part named at completion is missing or was overwritten since."""


class InvalidRange(ObjectStoreError):
    """The range starts behind the object's end."""


class StoreUnavailable(ObjectStoreError):
    """No answer, or an answer that says "later"; a write may or may not have been executed."""

    retriable = True


class StoreDenied(ObjectStoreError):
    """The store refuses our credentials or our clock."""

    retriable = True


class StoreFull(ObjectStoreError):
    """The store has no space left."""

    retriable = True


class ObjectInfo(msgspec.Struct, frozen=True):
    """What HEAD tells: size in bytes and the opaque ETag without quotes."""

    size: int
    etag: str


class StoredObject(msgspec.Struct, frozen=True):
    """A small object, whole, with the ETag that belongs to exactly these bytes."""

    body: bytes
    etag: str


class PartInfo(msgspec.Struct, frozen=True):
    """One stored part of a multipart upload; ``number`` counts from 1, ``size`` is in bytes."""

    number: int
    size: int
    etag: str


class ObjectStore(ABC):
    """A bucket: flat keys, read-after-write per key, compare-and-swap by ETag.

    Keys are UTF-8, at most 900 bytes, ``/``-separated, without ``.``/``..`` elements; some services take
    elements of at most 255 bytes, and sort ``a/b`` before ``a!b``. All methods are
    safe to call from one event loop; bodies passed in are not kept after the call returns.
    """

    @abstractmethod
    async def get(self, key: str) -> StoredObject:
        """Return a small object (at most 32 MiB); NoSuchKey when absent."""

    @abstractmethod
    async def head(self, key: str) -> ObjectInfo:
        """Return size and ETag; NoSuchKey when absent."""

    @abstractmethod
    def read(
        self, key: str, start: int = 0, length: int | None = None, *, chunk: int = 1 << 20
    ) -> AsyncGenerator[memoryview, None]:
        """Yield bytes ``[start, start+length)`` in pieces of at most ``chunk`` bytes.

        A piece is valid until the next one is asked for; whoever may stop early closes the generator
        (``contextlib.aclosing``), which releases file and connection at once. NoSuchKey and InvalidRange are
        raised before the first piece; an object that vanishes while it is read either ends whole or raises,
        never other bytes.
        """

    @abstractmethod
    async def put(
        self,
        key: str,
        body: bytes | bytearray | memoryview,
        *,
        if_match: str | None = None,
        if_none_match: bool = False,
    ) -> str:
        """Store the object and return its ETag.

        ``if_match`` writes only over exactly that ETag (a missing key fails), ``if_none_match`` only when the
        key is absent; otherwise PreconditionFailed. Exactly one of any number of racing writers wins.
        StoreUnavailable on a conditional write means that only reading the key tells what happened.
        """

    @abstractmethod
    async def delete(self, key: str) -> None:
        """The key is absent after the call; deleting an absent key succeeds."""

    @abstractmethod
    def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[str]:
        """Yield keys with the prefix in byte order. It finds work; absence from it proves nothing."""

    @abstractmethod
    async def create_multipart(self, key: str) -> str:
        """Begin a multipart upload of ``key`` and return its id."""

    @abstractmethod
    async def upload_part(
        self, key: str, upload: str, number: int, body: bytes | bytearray | memoryview
    ) -> str:
        """Store part ``number`` (1..10,000) and return its ETag; storing it again replaces it."""

    @abstractmethod
    async def list_parts(self, key: str, upload: str) -> Sequence[PartInfo]:
        """Return all stored parts by number, every page; NoSuchKey when the upload is unknown."""

    @abstractmethod
    async def complete_multipart(self, key: str, upload: str, parts: Sequence[PartInfo]) -> str:
        """Make the object from exactly these parts and return its ETag.

        InvalidPart when a part's ETag is not the stored one. StoreUnavailable leaves it open whether it
        happened: HEAD of the key decides.
        """

    @abstractmethod
    async def abort_multipart(self, key: str, upload: str) -> None:
        """The upload and its parts are gone after the call; an unknown upload succeeds."""

    @abstractmethod
    async def list_multiparts(self, prefix: str) -> Sequence[tuple[str, str]]:
        """Return ``(key, upload id)`` of unfinished uploads whose key starts with the prefix."""

    @abstractmethod
    async def close(self) -> None:
        """Release connections and threads; nothing may be called afterwards."""
