"""What a key may be and how much ``get`` returns; every engine refuses the same."""

from __future__ import annotations

MOST_BYTES = 900
MOST_SMALL = 32 << 20


def checked(key: str) -> str:
    """Return the key, or raise ValueError when it is one that some engine could not hold."""
    if not key or len(key.encode()) > MOST_BYTES:
        raise ValueError(f"object key {key[:80]!r} must have 1 to {MOST_BYTES} bytes")
    if any(part in {"", ".", ".."} or "\x00" in part for part in key.split("/")):
        raise ValueError(f"object key {key!r} has an empty, '.' or '..' element")
    return key


def checked_small(key: str, size: int) -> int:
    """Return the size, or raise ValueError when the object is too large to be held whole."""
    if size > MOST_SMALL:
        raise ValueError(f"object {key!r} has {size} bytes, more than get() holds in memory; use read()")
    return size
