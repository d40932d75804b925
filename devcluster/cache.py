"""What is built once and kept: a folder outside the checkout, so that a fresh clone finds it again."""

from __future__ import annotations

import fcntl
import hashlib
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def root() -> Path:
    """Return the project's cache folder, the same one that `make setup` uses."""
    return Path(os.environ.get("AI_MODULES_CACHE") or Path.home() / ".cache" / "ai-modules")


def folder(name: str) -> Path:
    """Return one part of the cache, made when it is not there."""
    path = root() / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def uv() -> Path:
    """Return the installer that `make setup` keeps in the cache."""
    return root() / "uv" / "bin" / "uv"


def key(words: Iterable[str], files: Iterable[Path] = (), *, relative_to: Path | None = None) -> str:
    """Name a content by what decides it: some words and files, with their names when asked for."""
    digest = hashlib.sha256("\0".join(words).encode())
    for path in files:
        if relative_to:
            digest.update(f"\0{path.relative_to(relative_to).as_posix()}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time make what the path names; the others wait and then find it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
