"""The claim's file system, entered by descriptors only: nothing is ever written outside of it.

What belongs here: directories, parts, placing, probing. What does not: bytes and their order.

::

    <volume>/model/...                 the model; Pods mount just this
    <volume>/.ai-models-copy/          ours: the journal and the part that is being written

Every component of a path is opened on its own, relative to its parent and never through a symbolic link, so
that neither a name in a manifest nor a link on the volume leads anywhere else.
"""

from __future__ import annotations

import errno
import mmap
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

from aimodels.delivery.copy.outcome import VolumeFull, VolumeRefused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODEL = "model"
STAGING = ".ai-models-copy"
#: What a fresh file system brings along.
_TOLERATED = {"lost+found", ".snapshot"}
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_MODE = 0o444
#: Readable by any Pod's user; writable by us, so that a provisioner running as us can delete the files.
_DIRECTORY_MODE = 0o755
_PROBE = "probe"
PART = ".part"
ALIGNMENT = 4096


class Volume:
    """One mounted claim. ``direct`` says whether it takes writes that go around the page cache."""

    def __init__(self, root: int) -> None:
        self._root = root
        self.staging = -1
        self.direct = False

    @classmethod
    def open(cls, target: Path) -> Self:
        """Open the mounted claim; it must be a directory that we can write and that holds nothing foreign."""
        try:
            volume = cls(os.open(target, _DIRECTORY))
        except OSError as error:
            raise VolumeRefused(f"the volume at {target} cannot be opened: {error.strerror}") from error
        try:
            volume._refuse_foreign()
            with refusing("prepared"):
                volume.staging = volume._enter(volume._root, STAGING)
                volume._probe()
        except BaseException:
            volume.close()
            raise
        return volume

    def close(self) -> None:
        """Close the descriptors."""
        for descriptor in (self.staging, self._root):
            if descriptor >= 0:
                with suppress(OSError):
                    os.close(descriptor)
        self._root = self.staging = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def free_bytes(self) -> int:
        """Return what the file system says is free for us."""
        stat = os.fstatvfs(self._root)
        return stat.f_bavail * stat.f_frsize

    def staged_bytes(self) -> int:
        """Return the bytes of parts that earlier attempts left."""
        with os.scandir(self.staging) as entries:
            return sum(
                entry.stat(follow_symlinks=False).st_size for entry in entries if entry.name.endswith(PART)
            )

    def open_part(self, name: str, *, direct: bool) -> int:
        """Open a part for reading and writing, created when it is not there."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_DIRECT if direct else 0)
        return os.open(name, flags, 0o600, dir_fd=self.staging)

    def drop_part(self, name: str) -> None:
        """Remove a part, if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.staging)

    def place(self, part: str, path: str) -> None:
        """Move a finished, synced part to its path in the model, durably; an older file gives way."""
        with self._parent(path) as (directory, name):
            os.chmod(part, _FILE_MODE, dir_fd=self.staging)
            os.rename(part, name, src_dir_fd=self.staging, dst_dir_fd=directory)
            os.fsync(directory)

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        """Yield the descriptor of the path's directory, made as needed, and the last component."""
        *directories, name = [MODEL, *components(path)]
        descriptor = os.dup(self._root)
        try:
            for each in directories:
                deeper = self._enter(descriptor, each)
                os.close(descriptor)
                descriptor = deeper
            yield descriptor, name
        finally:
            os.close(descriptor)

    def _enter(self, parent: int, name: str) -> int:
        """Open a directory, made and made durable when it is not there."""
        try:
            return os.open(name, _DIRECTORY, dir_fd=parent)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise VolumeRefused(f"{name!a} on the volume is not a directory: {error.strerror}") from error
        with suppress(FileExistsError):
            os.mkdir(name, _DIRECTORY_MODE, dir_fd=parent)
        descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
        os.fchmod(descriptor, _DIRECTORY_MODE)
        os.fsync(parent)
        return descriptor

    def _refuse_foreign(self) -> None:
        found = _names(self._root)
        foreign = sorted(found - _TOLERATED - {MODEL, STAGING})
        if not foreign and MODEL in found and STAGING not in found:
            model = os.open(MODEL, _DIRECTORY, dir_fd=self._root)
            foreign = sorted(_names(model))
            os.close(model)
        if foreign:
            raise VolumeRefused(
                f"the volume holds {foreign[0][:100]!a}, which no copy has written: "
                "a claim is filled only when it is empty"
            )

    def _probe(self) -> None:
        """Write and remove a block: a volume that cannot be written says so here, with its own words."""
        for direct in (False, True):
            try:
                descriptor = self.open_part(_PROBE, direct=direct)
                try:
                    _write_block(descriptor)
                finally:
                    os.close(descriptor)
                    self.drop_part(_PROBE)
            except OSError as error:
                if not direct:
                    raise
                self.direct = error.errno not in {errno.EINVAL, errno.EOPNOTSUPP, errno.EIO}
                return
        self.direct = True


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Turn the file system's errors into ours; those that may pass are left as they are."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise VolumeFull(
                f"the volume is full ({error.strerror}): the claim needs more space or quota"
            ) from error
        if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise VolumeRefused(
                f"the volume cannot be {what}: {error.strerror}; it must be writable for group 64535"
            ) from error
        raise


def components(path: str) -> list[str]:
    """Return the components of a checked path; one that could leave the model is refused once more."""
    parts = path.split("/")
    if any(part in {"", ".", ".."} or "\0" in part for part in parts):
        raise VolumeRefused(f"{path[:100]!a} is not a path inside a model")
    return parts


def _names(directory: int) -> set[str]:
    with os.scandir(directory) as entries:
        return {entry.name for entry in entries}


def _write_block(descriptor: int) -> None:
    with mmap.mmap(-1, ALIGNMENT) as block:
        os.pwrite(descriptor, block, 0)
    os.fsync(descriptor)
