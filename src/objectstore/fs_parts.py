"""The table of one multipart upload's parts: a file with the key and a slot of 64 bytes per part number.

A slot says where the part's bytes are: in the common file ``data`` at an offset, or in a file of its own.
"""

from __future__ import annotations

import os
import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

from objectstore.fs_files import write_all

if TYPE_CHECKING:
    from pathlib import Path

MOST_PARTS = 10_000
_HEADER = 4096
_SLOT_SIZE = 64
_SLOT = struct.Struct(">16s16sQQI")
_COMMON = bytes(16)


class Slot(NamedTuple):
    """A stored part; ``own_file`` is empty when the bytes are in the common file."""

    etag: str
    offset: int
    size: int
    own_file: str

    @property
    def end(self) -> int:
        """Return the offset behind the part's last byte."""
        return self.offset + self.size


class PartTable:
    """The open table file; reading and writing slots is safe from several threads and processes."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    @staticmethod
    def create(path: Path, key: str) -> None:
        """Make an empty, durable table for the key."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, memoryview(key.encode().ljust(_HEADER, b"\0")), 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @staticmethod
    def key_of(path: Path) -> str:
        """Return the key that a table was made for."""
        with path.open("rb") as file:
            return file.read(_HEADER).rstrip(b"\0").decode()

    def key(self) -> str:
        """Return the key that the upload is for."""
        return os.pread(self._descriptor, _HEADER, 0).rstrip(b"\0").decode()

    def slots(self) -> dict[int, Slot]:
        """Return every stored part by number."""
        raw = os.pread(self._descriptor, MOST_PARTS * _SLOT_SIZE, _HEADER)
        found = {
            start // _SLOT_SIZE + 1: _decoded(raw[start : start + _SLOT.size])
            for start in range(0, len(raw), _SLOT_SIZE)
        }
        return {number: slot for number, slot in found.items() if slot}

    def write(self, number: int, slot: Slot) -> None:
        """Record a part durably; its bytes must be durable already."""
        own = bytes.fromhex(slot.own_file) if slot.own_file else _COMMON
        body = _SLOT.pack(bytes.fromhex(slot.etag), own, slot.offset, slot.size, 0)[:-4]
        self._put(number, body + struct.pack(">I", zlib.crc32(body)))
        os.fdatasync(self._descriptor)

    def clear(self, numbers: list[int]) -> None:
        """Forget parts durably, before their bytes are overwritten."""
        for number in numbers:
            self._put(number, bytes(_SLOT.size))
        if numbers:
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _put(self, number: int, raw: bytes) -> None:
        write_all(self._descriptor, memoryview(raw), _HEADER + (number - 1) * _SLOT_SIZE)


def _decoded(raw: bytes) -> Slot | None:
    if len(raw) < _SLOT.size or not any(raw):
        return None
    etag, own, offset, size, checksum = _SLOT.unpack(raw)
    if zlib.crc32(raw[:-4]) != checksum:
        return None
    return Slot(etag.hex(), offset, size, "" if own == _COMMON else own.hex())
