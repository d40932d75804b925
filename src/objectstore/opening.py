"""Opens the engine that a URL names: ``file:///path``, ``memory:`` or ``s3://bucket[/prefix]``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from objectstore.filesystem import FileSystemStore
from objectstore.memory import MemoryStore
from objectstore.s3settings import S3Settings

if TYPE_CHECKING:
    from objectstore.port import ObjectStore


def open_store(url: str, *, s3: S3Settings | None = None) -> ObjectStore:
    """Return the store; ValueError when the URL names none of the engines."""
    parts = urlsplit(url)
    if parts.scheme == "file" and not parts.netloc and parts.path.startswith("/"):
        return FileSystemStore(Path(unquote(parts.path)))
    if url == "memory:":
        return MemoryStore()
    if parts.scheme == "s3" and parts.netloc:
        from objectstore.s3 import S3Store  # noqa: PLC0415 - boto3 costs 30 MB that other engines spare

        return S3Store(parts.netloc, unquote(parts.path).strip("/"), s3 or S3Settings())
    raise ValueError(f"store {url!r} is not one of file:///path, memory:, s3://bucket[/prefix]")
