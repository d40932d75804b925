"""The union of byte intervals: what was delivered at least once, however often it was asked for.

What belongs here: adding, merging, measuring. What does not: whose bytes they are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Above this many separate intervals the narrowest gap counts as delivered: bounded memory, small error.
MOST_INTERVALS = 256


class Intervals:
    """Disjoint, sorted half-open intervals ``[start, end)``; touching ones are one."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in intervals:
            self.add(start, end)

    def add(self, start: int, end: int) -> None:
        """Add ``[start, end)``; an empty interval adds nothing."""
        if start >= end:
            return
        if self._ends and start == self._ends[-1]:  # the usual case: a stream goes on
            self._ends[-1] = end
            return
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]
        if len(self._starts) > MOST_INTERVALS:
            self._close_narrowest_gap()

    def update(self, other: Intervals) -> None:
        """Add all of another union."""
        for start, end in other:
            self.add(start, end)

    def total(self) -> int:
        """Return the number of bytes covered."""
        return sum(self._ends) - sum(self._starts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._starts, self._ends, strict=True))

    def __len__(self) -> int:
        return len(self._starts)

    def _close_narrowest_gap(self) -> None:
        gaps = [after - before for before, after in zip(self._ends, self._starts[1:], strict=False)]
        at = gaps.index(min(gaps))
        del self._ends[at]
        del self._starts[at + 1]
