"""The keys that open the gate: the files of a mounted Secret, turned into files named by the keys.

What belongs here: which keys count, and keeping the folder that nginx looks into. What does not: who makes
keys, and when an old one ends.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from .config import KEY

if TYPE_CHECKING:
    from pathlib import Path

#: of the Secret; the second is there while a key is being replaced
NAMES = ("token", "previousToken")
_LIMIT = 4096
_KEY = re.compile(rf"{KEY}\Z")


class BadKey(Exception):
    """A value of the Secret that no client could present; the text never holds it."""


def read(mounted: Path) -> frozenset[str]:
    """Return the keys of the Secret; raise ``BadKey`` when one cannot be used, ``OSError`` when none is."""
    found = {name: text for name in NAMES if (text := _text(mounted / name, name)) is not None}
    if not found:
        raise FileNotFoundError(f"{mounted} holds no file named {' or '.join(NAMES)}")
    for name, text in found.items():
        if not _KEY.match(text):
            raise BadKey(
                f"the value {name} of the Secret cannot be used as a key; write 16 to 200 letters, digits, "
                "'_', '-' and '.', with no '.' at the beginning"
            )
    return frozenset(found.values())


def keep(folder: Path, wanted: frozenset[str]) -> bool:
    """Let exactly these keys open the gate, new ones first; tell whether anything changed."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    present = {path.name for path in folder.iterdir()}
    for key in wanted - present:
        os.close(os.open(folder / key, os.O_CREAT | os.O_WRONLY, 0o400))
    for key in present - wanted:
        (folder / key).unlink(missing_ok=True)
    return present != wanted


def _text(path: Path, name: str) -> str | None:
    try:
        with path.open("rb") as file:
            content = file.read(_LIMIT + 1)
    except FileNotFoundError:
        return None
    if len(content) > _LIMIT:
        raise BadKey(f"the value {name} of the Secret is longer than {_LIMIT} bytes")
    return content.strip().decode(errors="replace")
