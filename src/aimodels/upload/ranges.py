"""``Content-Range`` of a continued PUT."""

from __future__ import annotations

import re
from dataclasses import dataclass

from aimodels.upload.refusals import invalid

_BYTES = re.compile(r"bytes (?:(\d{1,19})-(\d{1,19})|\*)/(?:(\d{1,19})|\*)\Z")
_EXAMPLE = "Content-Range is `bytes <first>-<last>/<size of the file>`"


@dataclass(frozen=True)
class Piece:
    """Which bytes of the file a PUT carries: ``length`` from ``first`` on, of ``total`` if that is known.

    ``first`` is None for ``bytes */<total>``: no bytes, the file is said to be whole.
    """

    first: int | None
    length: int
    total: int | None

    @property
    def last_one(self) -> bool:
        """Say whether nothing follows these bytes."""
        return self.total is not None and (self.first is None or self.first + self.length == self.total)


def parse(header: str | None, content_length: int | None) -> Piece | None:
    """Return what the headers say, None when there is no Content-Range; Problem 400 when they contradict."""
    if header is None:
        return None
    match = _BYTES.fullmatch(header.strip())
    if not match:
        raise invalid(f"Content-Range {header[:80]!r} cannot be read", _EXAMPLE)
    total = int(match[3]) if match[3] else None
    if match[1] is None:
        if content_length or total is None:
            raise invalid("`bytes */<size>` goes with an empty body", _EXAMPLE)
        return Piece(None, 0, total)
    first, last = int(match[1]), int(match[2])
    if content_length == 0 and first == total:
        return Piece(None, 0, total)
    if content_length is None:
        content_length = last - first + 1
    if last < first or last - first + 1 != content_length or (total is not None and last >= total):
        raise invalid("Content-Range does not agree with itself or with Content-Length", _EXAMPLE)
    return Piece(first, content_length, total)
