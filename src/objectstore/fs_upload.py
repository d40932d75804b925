"""One multipart upload of the file-system store, while it is open in this process.

Parts are written straight to where they will be in the finished object, so that completion copies nothing.
Only one process at a time may do so (it holds a lock on the common file), and only for a part number that
it is not writing already; every other part goes into a file of its own. Bytes that a slot names are never
overwritten: the slot is cleared first. So a part that a stalled writer sends late cannot get into another's
object.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import threading
from typing import TYPE_CHECKING, NamedTuple

from objectstore.fs_direct import DirectFile
from objectstore.fs_files import new_etag, trailer, write_all
from objectstore.fs_parts import PartTable, Slot
from objectstore.port import InvalidPart, NoSuchKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from objectstore.port import PartInfo

COMMON = "data"
TABLE = "parts"


class _Place(NamedTuple):
    descriptor: int
    offset: int
    own_file: str


class Upload:
    """The open files of one upload; ``users`` counts the calls that work on it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.users = 0
        self._changed = threading.Condition()
        self._writing: dict[int, tuple[int, int]] = {}
        self._completing = False
        try:
            self._common = os.open(directory / COMMON, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            raise NoSuchKey(f"multipart upload {directory.name} does not exist") from None
        self._direct = DirectFile(directory / COMMON)
        self.table = PartTable(directory / TABLE)
        self.key = self.table.key()
        self._slots = self.table.slots()
        self._owner = _try_lock(self._common)

    def close(self) -> None:
        """Close the files; nobody may be using them."""
        self.table.close()
        self._direct.close()
        os.close(self._common)

    def write(self, number: int, body: memoryview) -> str:
        """Store a part durably and return its ETag."""
        etag = new_etag()
        with self._place(number, len(body)) as place:
            direct = 0 if place.own_file else self._direct.write(body, place.offset)
            write_all(place.descriptor, body[direct:], place.offset + direct)
            os.fdatasync(place.descriptor)
            slot = Slot(etag, place.offset, len(body), place.own_file)
            self.table.write(number, slot)
            with self._changed:
                self._slots[number] = slot
        return etag

    @contextlib.contextmanager
    def _place(self, number: int, size: int) -> Iterator[_Place]:
        """Choose where the part goes and keep that place for the time of writing."""
        with self._changed:
            if self._completing:
                raise NoSuchKey(f"multipart upload {self.directory.name} is being completed")
            offset = self._free_offset(number, size)
            if offset is not None:
                self._writing[number] = (offset, offset + size)
                if self._slots.pop(number, None):
                    self.table.clear([number])
        if offset is not None:
            try:
                yield _Place(self._common, offset, "")
            finally:
                with self._changed:
                    del self._writing[number]
                    self._changed.notify_all()
            return
        own = secrets.token_hex(16)
        descriptor = os.open(self.directory / own, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            yield _Place(descriptor, 0, own)
        finally:
            os.close(descriptor)

    def _free_offset(self, number: int, size: int) -> int | None:
        """Return the part's place in the common file, or None when it must not or cannot be there."""
        if not self._owner or number in self._writing:
            return None
        taken = {n: (slot.offset, slot.end) for n, slot in self._slots.items() if not slot.own_file}
        taken |= self._writing
        taken.pop(number, None)
        before = max((n for n in taken if n < number), default=0)
        start, end = taken.get(before, (0, 0))
        offset = end + (number - 1 - before) * ((end - start) or size)
        clash = any(low < offset + size and offset < high for low, high in taken.values())
        return None if clash else offset

    def completed_in_place(self, parts: Sequence[PartInfo], etag: str) -> bool:
        """Make the common file the finished object, if its bytes stand in order already.

        The caller holds the upload by ``completing``.
        """
        slots = self.checked_slots(parts)
        end = 0
        for slot in slots:
            if slot.own_file or slot.offset != end or not self._owner:
                return False
            end = slot.end
        self.table.clear(sorted(self.table.slots().keys() - {part.number for part in parts}))
        os.ftruncate(self._common, end)
        write_all(self._common, memoryview(trailer(etag, end)), end)
        os.fsync(self._common)
        return True

    def copy_to(self, target: int, parts: Sequence[PartInfo], etag: str) -> None:
        """Write the finished object into another file, durably."""
        slots = self.checked_slots(parts)
        end = 0
        for slot in slots:
            with self._source(slot) as source:
                _copy(source, slot.offset, target, end, slot.size)
            end += slot.size
        write_all(target, memoryview(trailer(etag, end)), end)
        os.fsync(target)
        self.checked_slots(parts)

    @contextlib.contextmanager
    def completing(self) -> Iterator[None]:
        """Keep writers out, after those at work have finished."""
        with self._changed:
            if self._completing:
                raise NoSuchKey(f"multipart upload {self.directory.name} is being completed")
            self._completing = True
            self._changed.wait_for(lambda: not self._writing)
        try:
            yield
        finally:
            with self._changed:
                self._completing = False

    def checked_slots(self, parts: Sequence[PartInfo]) -> list[Slot]:
        """Return the slots of the named parts as they stand in the table now."""
        slots = self.table.slots()
        for part in parts:
            slot = slots.get(part.number)
            if slot is None or slot.etag != part.etag:
                raise InvalidPart(f"part {part.number} of {self.key} is not the one that is stored")
        return [slots[part.number] for part in parts]

    @contextlib.contextmanager
    def _source(self, slot: Slot) -> Iterator[int]:
        if not slot.own_file:
            yield self._common
            return
        descriptor = os.open(self.directory / slot.own_file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _copy(source: int, offset: int, target: int, at: int, size: int) -> None:
    """Copy inside the kernel; a file system that shares blocks does not even move them."""
    while size:
        try:
            copied = os.copy_file_range(source, target, size, offset, at)
        except OSError as error:
            if error.errno not in {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}:
                raise
            copied = os.pwrite(target, os.pread(source, min(size, 8 << 20), offset), at)
        if not copied:
            raise InvalidPart("a stored part is shorter than its record says")
        size, offset, at = size - copied, offset + copied, at + copied
