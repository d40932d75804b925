"""How an upload is cut into parts.

S3 allows 10,000 parts, so their size follows from the length; when that is unknown, parts grow. All sizes
are whole MiB: a part ends at a whole block of every digest, where its state can be saved.
"""

from __future__ import annotations

MIB = 1 << 20
Plan = tuple[tuple[int, int], ...]

_SMALL = 1 << 30
_MOST_PARTS = 9_000
#: a part is held in memory as a whole: no more than this unless there is memory for it
LARGEST = 128 * MIB
_GROWING: Plan = ((1000, 16 * MIB), (1000, 32 * MIB), (2000, 64 * MIB), (6000, LARGEST))
_UNIFORM: Plan = ((10_000, LARGEST),)


def plan_for(length: int | None, *, uniform: bool = False) -> Plan:
    """Return (count, size) steps for an upload of that length; ``uniform`` for stores that demand it."""
    if length is None:
        return _UNIFORM if uniform else _GROWING
    if length < _SMALL:
        return ((10_000, 8 * MIB),)
    size = max(16 * MIB, -(-length // (_MOST_PARTS * MIB)) * MIB)
    return ((10_000, size),)


def part_size(plan: Plan, number: int) -> int | None:
    """Return the size of part ``number`` (from 1), or None when the plan has no such part."""
    for count, size in plan:
        if number <= count:
            return size
        number -= count
    return None


def window(size: int) -> int:
    """Return how many parts may be in flight beside the one that fills: a crash costs at most these."""
    return 2 if size < 16 * MIB else 3
