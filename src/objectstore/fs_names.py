"""How keys become paths: a file can never stand where another key needs a directory.

A key's last element becomes a file whose name ends in ``=``; the elements before it become directories. An
element too long for a file name is split over directories whose names end in ``+``.
"""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from objectstore import keys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PLAIN = "!$&'()*,:;@ "
_PIECE = 240


def relative_path(key: str) -> PurePosixPath:
    """Return where the key's object lies below the objects' directory."""
    elements = keys.checked(key).split("/")
    names = [name for element in elements for name in _split(element)]
    return PurePosixPath(*names[:-1], names[-1] + "=")


def _split(element: str) -> list[str]:
    quoted = quote(element, safe=_PLAIN)
    pieces = [quoted[start : start + _PIECE] for start in range(0, len(quoted), _PIECE)]
    return [piece + "+" for piece in pieces[:-1]] + pieces[-1:]


def keys_below(root: Path, prefix: str) -> list[str]:
    """Return every key with the prefix, sorted by its bytes; what vanishes meanwhile is left out."""
    whole_elements = prefix.rpartition("/")[0]
    start, quoted = root, ""
    if whole_elements:
        path = relative_path(whole_elements)
        start, quoted = root / path.with_name(path.name.removesuffix("=")), quote(whole_elements) + "/"
    found = [key for key in _walk(start, quoted) if key.startswith(prefix)]
    return sorted(found, key=str.encode)


def _walk(directory: Path, quoted: str) -> Iterator[str]:
    """Yield the keys below a directory; an element may be split in the middle of a quoted character."""
    try:
        entries = list(os.scandir(directory))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.name.endswith("="):
            yield unquote(quoted + entry.name[:-1])
        elif entry.name.endswith("+"):
            yield from _walk(directory / entry.name, quoted + entry.name[:-1])
        else:
            yield from _walk(directory / entry.name, quoted + entry.name + "/")
