"""Multipart uploads of the file-system store: created, written, completed and removed."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import threading
from typing import TYPE_CHECKING

from objectstore.fs_files import named_errors, new_etag, sync_directory
from objectstore.fs_parts import MOST_PARTS, PartTable
from objectstore.fs_upload import COMMON, TABLE, Upload
from objectstore.port import NoSuchKey, PartInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from objectstore.fs_files import Scratch

_MOST_OPEN = 64


class Multiparts:
    """All unfinished uploads below one directory; those used lately stay open, with their write lock."""

    def __init__(self, directory: Path, scratch: Scratch, publish: Callable[[Path, str], None]) -> None:
        self._directory = directory
        self._scratch = scratch
        self._publish = publish
        self._lock = threading.Lock()
        self._open: dict[str, Upload] = {}
        for left in directory.iterdir():
            if not (left / COMMON).exists():
                shutil.rmtree(left, ignore_errors=True)

    def create(self, key: str) -> str:
        """Make an empty upload, durably; it appears whole or not at all."""
        with named_errors(f"beginning an upload of {key}"):
            upload, made = secrets.token_hex(16), self._scratch.new()
            made.mkdir()
            PartTable.create(made / TABLE, key)
            (made / COMMON).touch(mode=0o600)
            sync_directory(made)
            made.rename(self._directory / upload)
            sync_directory(self._directory)
        return upload

    def write(self, key: str, upload: str, number: int, body: bytes | bytearray | memoryview) -> str:
        """Store a part, durably, and return its ETag."""
        if not 1 <= number <= MOST_PARTS:
            raise ValueError(f"part number {number} is not within 1..{MOST_PARTS}")
        with named_errors(f"writing part {number} of {key}"), self._used(key, upload) as opened:
            return opened.write(number, memoryview(body))

    def parts(self, key: str, upload: str) -> Sequence[PartInfo]:
        """Return the stored parts by number."""
        with named_errors(f"reading the parts of {key}"), self._used(key, upload) as opened:
            slots = opened.table.slots()
            return [PartInfo(number, slots[number].size, slots[number].etag) for number in sorted(slots)]

    def complete(self, key: str, upload: str, parts: Sequence[PartInfo]) -> str:
        """Make the object and forget the upload."""
        with named_errors(f"completing {key}"), self._used(key, upload) as opened:
            etag = new_etag()
            with opened.completing():
                if opened.completed_in_place(parts, etag):
                    self._publish(opened.directory / COMMON, key)
                else:
                    self._publish(self._copied(opened, parts, etag), key)
                self._forget(upload)
            shutil.rmtree(opened.directory, ignore_errors=True)
        return etag

    def _copied(self, opened: Upload, parts: Sequence[PartInfo], etag: str) -> Path:
        path = self._scratch.new()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            opened.copy_to(descriptor, parts, etag)
        except BaseException:
            path.unlink()
            raise
        finally:
            os.close(descriptor)
        return path

    def abort(self, key: str, upload: str) -> None:
        """Remove the upload; writers at work finish into files that have no name any more."""
        with named_errors(f"aborting an upload of {key}"):
            self._forget(upload)
            removed = self._scratch.new()
            with contextlib.suppress(FileNotFoundError, NoSuchKey):
                (self._directory / _checked(upload)).rename(removed)
                sync_directory(self._directory)
            shutil.rmtree(removed, ignore_errors=True)

    def unfinished(self, prefix: str) -> list[tuple[str, str]]:
        """Return key and id of every upload whose key has the prefix."""
        found = []
        for directory in self._directory.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if (directory / COMMON).exists():
                    found.append((PartTable.key_of(directory / TABLE), directory.name))
        return sorted(item for item in found if item[0].startswith(prefix))

    def close(self) -> None:
        """Close every upload; nobody may be using one."""
        for opened in self._open.values():
            opened.close()
        self._open.clear()

    @contextlib.contextmanager
    def _used(self, key: str, upload: str) -> Iterator[Upload]:
        with self._lock:
            opened = self._open.pop(upload, None) or Upload(self._directory / _checked(upload))
            self._open[upload] = opened
            opened.users += 1
            self._close_oldest()
        try:
            if opened.key != key:
                raise NoSuchKey(f"multipart upload {upload} is not of {key}")
            yield opened
        except FileNotFoundError:
            if opened.directory.exists():
                raise
            self._forget(upload)
            raise NoSuchKey(f"multipart upload {upload} was removed") from None
        finally:
            with self._lock:
                opened.users -= 1
                if not opened.users and self._open.get(upload) is not opened:
                    opened.close()

    def _close_oldest(self) -> None:
        for upload in [name for name, opened in self._open.items() if not opened.users]:
            if len(self._open) <= _MOST_OPEN:
                break
            self._open.pop(upload).close()

    def _forget(self, upload: str) -> None:
        """Take the upload from the open ones; its last user closes it."""
        with self._lock:
            opened = self._open.pop(upload, None)
            if opened and not opened.users:
                opened.close()


def _checked(upload: str) -> str:
    """Refuse what cannot be one of our ids before it becomes a path."""
    if len(upload) != 32 or not set(upload) <= set("0123456789abcdef"):  # noqa: PLR2004
        raise NoSuchKey(f"multipart upload {upload[:80]!r} does not exist")
    return upload
