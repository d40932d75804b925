"""How long a replica may take until it answers.

What belongs here: the bound from the model's size. What does not: what happens when it is over.
"""

from __future__ import annotations

#: a slow shared volume, read once from end to end
_BYTES_PER_SECOND = 100 << 20
#: until a runtime has started, and until a loaded one has warmed up
_BASE = 300
_UNKNOWN = 1800
_MOST = 4 * 3600


def seconds(size_bytes: int | None) -> int:
    """Return the bound for a model of so many bytes; looping errors end sooner, by themselves."""
    if size_bytes is None:
        return _UNKNOWN
    return min(_BASE + size_bytes // _BYTES_PER_SECOND, _MOST)
