"""What is done already, one line each, durable before it counts.

What belongs here: the journal's file. What does not: what a step is; a step is known by its name.

The first line names the manifest: a claim is filled with one model only. A line that was cut by a crash is
the last one and is ignored; its step is done again.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

import msgspec

from aimodels.delivery.copy.outcome import VolumeRefused

if TYPE_CHECKING:
    from aimodels.delivery.copy.volume import Volume

NAME = "journal"
VERSION = 1
COMPLETE = "complete"
_LIMIT = 64 << 20


class _Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    manifest: str


class Placed(msgspec.Struct, frozen=True, array_like=True):
    """A file that a step placed in the model."""

    path: str
    size: int


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    done: str
    files: list[Placed] = msgspec.field(default_factory=list)


class Journal:
    """The journal of one copy, open for appending."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.done: dict[str, list[Placed]] = {}

    @classmethod
    def open(cls, volume: Volume, manifest: str) -> Journal:
        """Read what an earlier attempt did, or begin; another model's journal is refused."""
        descriptor = os.open(
            NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=volume.staging
        )
        try:
            whole = _read(descriptor)
            journal = cls(descriptor)
            if whole:
                journal._resume(whole, manifest)
            else:
                os.ftruncate(descriptor, 0)
                journal._append(_Head(VERSION, manifest))
                os.fsync(volume.staging)
        except BaseException:
            os.close(descriptor)
            raise
        return journal

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def finish(self, step: str, placed: list[Placed]) -> None:
        """Note a step as done with the files that it placed; it is durable when this returns."""
        self._append(_Line(step, placed))
        self.done[step] = placed

    def _append(self, line: msgspec.Struct) -> None:
        os.lseek(self._descriptor, 0, os.SEEK_END)
        view = memoryview(msgspec.json.encode(line) + b"\n")
        while view:
            view = view[os.write(self._descriptor, view) :]
        os.fsync(self._descriptor)

    def _resume(self, whole: list[bytes], manifest: str) -> None:
        try:
            head = msgspec.json.decode(whole[0], type=_Head)
            lines = [msgspec.json.decode(line, type=_Line) for line in whole[1:]]
        except msgspec.DecodeError as error:
            raise VolumeRefused("the volume has a journal that this version cannot read") from error
        if head.version != VERSION:
            raise VolumeRefused(f"the volume has a journal of version {head.version}, not {VERSION}")
        if head.manifest != manifest:
            raise VolumeRefused(
                f"the volume belongs to the copy of {head.manifest[:100]!a}: "
                "another model needs another claim"
            )
        self.done = {line.done: line.files for line in lines}
        os.ftruncate(self._descriptor, sum(len(line) + 1 for line in whole))


def _read(descriptor: int) -> list[bytes]:
    """Return the whole lines; what follows the last line end was cut."""
    size = os.fstat(descriptor).st_size
    if size > _LIMIT:
        raise VolumeRefused("the volume has a journal that is too large to be ours")
    return os.pread(descriptor, size, 0).split(b"\n")[:-1]
