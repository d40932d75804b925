"""What lies in the bucket: keys and the bodies of records, pointers, sessions and the owner's mark.

What belongs here: names of keys, Structs, their encoding. What does not: reading and writing them.

Times are whole UTC seconds. Every body carries ``rev``, 128 random bits, new on every write, so that equal
contents never have equal ETags. The slash of a repository's name becomes ``!``, which no name may contain,
so that no key is a directory of another.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Literal, TypeVar

import msgspec

OWNER_KEY = "owner.json"
#: a record is refused above this size: it is read and written whole for every change, at the expense of all
RECORD_LIMIT = 4 << 20
#: above so many entries, or bytes of a body, coding takes longer than a message of an upload may wait
_HEAVY_ENTRIES = 500
_HEAVY_BYTES = 16 << 10
_GZIP = 31  # zlib's window bits for a gzip header


class TooLarge(Exception):
    """A record would exceed its limit."""


class Versioned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A JSON object under compare-and-swap."""

    rev: str = ""


T = TypeVar("T", bound=Versioned)


class OwnerMark(Versioned, frozen=True, kw_only=True):
    """``owner.json``: which installation the bucket belongs to."""

    cluster: str
    incarnation: str
    since: int


class ManifestEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One committed manifest of a repository; ``blobs`` counts its config and layers."""

    key: str
    media_type: str
    size: int
    at: int
    blobs: int
    subject: str | None = None
    artifact_type: str | None = None
    annotations: dict[str, str] | None = None
    children: tuple[str, ...] = ()


class PendingEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A manifest that is being validated; ``by`` names who pushes."""

    digest: str
    key: str
    at: int
    by: str


class Record(Versioned, frozen=True, kw_only=True):
    """A repository: its roots and the commits in flight. Closed records keep only who they were."""

    name: str
    life: str
    owner: str
    state: Literal["open", "closed"]
    at: int = 0
    tags: dict[str, str] = {}
    manifests: dict[str, ManifestEntry] = {}
    pending: dict[str, PendingEntry] = {}


class Reader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A life that may read a blob; until when its lease runs; whether a deletion has begun."""

    repo: str
    until: int
    leaving: bool = False


class Pointer(Versioned, frozen=True, kw_only=True):
    """Where a blob's bytes are and who may read them; ``trash`` names bytes that nobody may use again."""

    state: Literal["live", "condemned", "dead"]
    since: int
    data: str | None = None
    size: int = 0
    repos: dict[str, Reader] = {}
    trash: tuple[str, ...] = ()


class StoredPart(msgspec.Struct, frozen=True):
    """One journaled part of an upload."""

    n: int
    size: int
    etag: str


class HashState(msgspec.Struct, frozen=True):
    """A digest's chaining words after ``bytes`` bytes, a whole number of its blocks."""

    words: tuple[int, ...]
    bytes: int


class Tail(msgspec.Struct, frozen=True):
    """The object with the bytes after the last whole part."""

    etag: str
    size: int


SessionState = Literal["new", "open", "sealed", "cancelled", "done", "void"]


class Session(Versioned, frozen=True, kw_only=True):
    """One upload: what is durable of it, who may write, and how far it got.

    ``offset`` counts the bytes of ``parts`` and ``tail``. ``plan`` is a list of (count, part size).
    ``hash`` is empty when the digest's state could not be saved: then the bytes are read again at the end.
    """

    life: str
    repo: str
    key: str
    attempt: int
    state: SessionState
    at: int
    transfer: str | None = None
    data: str | None = None
    upload: str | None = None
    plan: tuple[tuple[int, int], ...] = ()
    parts: tuple[StoredPart, ...] = ()
    offset: int = 0
    hash: dict[str, HashState] = {}
    tail: Tail | None = None
    digest: str | None = None


def record_key(name: str) -> str:
    """Return the key of a repository's record."""
    return f"repos/{_spread(name)}/{_flat(name)}.json"


def manifest_key(name: str, pid: str) -> str:
    """Return the key of the bytes of one manifest push."""
    return f"manifests/{_spread(name)}/{_flat(name)}/{pid}"


def pointer_key(digest: str) -> str:
    """Return the key of a blob's pointer."""
    algorithm, _, value = digest.partition(":")
    return f"blobs/{algorithm}/{value[:2]}/{value}.json"


def data_key(dkey: str) -> str:
    """Return the key of bytes."""
    return f"data/{dkey[:2]}/{dkey}"


def session_key(sid: str) -> str:
    """Return the key of an upload session."""
    return f"uploads/{sid}.json"


def tail_key(sid: str) -> str:
    """Return the key of an upload's bytes after its last whole part."""
    return f"uploads/{sid}.tail"


def session_id(life: str, key: str, serial: int) -> str:
    """Return the id of the session that a resume key finds in a life, for each serial another one."""
    return hashlib.sha256(f"{life}\n{serial}\n{key}".encode()).hexdigest()[:32]


def encode(value: Versioned) -> bytes:
    """Return the body to store: JSON, gzipped for records, which may be large."""
    body = msgspec.json.encode(value)
    if not isinstance(value, Record):
        return body
    if len(body) > RECORD_LIMIT:
        raise TooLarge(value.name)
    packer = zlib.compressobj(level=1, wbits=_GZIP)
    return packer.compress(body) + packer.flush()


def is_heavy(value: Versioned | bytes) -> bool:
    """Tell whether coding this should not be done in the event loop."""
    if isinstance(value, bytes):
        return len(value) > _HEAVY_BYTES
    if isinstance(value, Record):
        return len(value.tags) + len(value.manifests) + len(value.pending) > _HEAVY_ENTRIES
    return isinstance(value, Pointer) and len(value.repos) > _HEAVY_ENTRIES


def decode(body: bytes, kind: type[T]) -> T:
    """Return the Struct; ``msgspec.DecodeError`` when it is none."""
    if issubclass(kind, Record):
        unpacker = zlib.decompressobj(wbits=_GZIP)
        try:
            body = unpacker.decompress(body, RECORD_LIMIT)
        except zlib.error as error:
            raise msgspec.DecodeError(f"not gzip: {error}") from error
        if unpacker.unconsumed_tail:
            raise msgspec.DecodeError(f"larger than {RECORD_LIMIT} bytes")
    return msgspec.json.decode(body, type=kind)


def _spread(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:2]


def _flat(name: str) -> str:
    return name.replace("/", "!")
