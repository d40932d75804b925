"""A tar layer into files: read from its part on the volume, which shrinks as files come out of it.

What belongs here: from a checked tar to placed files. What does not: what a tar may hold (``archives``).

Members leave the tar from its end, and each is cut off once it is placed: so the volume holds every byte
about once. After a crash what is left of the tar is a prefix of it, from which fetching goes on.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from aimodels.delivery.copy.journal import Placed
from aimodels.delivery.copy.outcome import LayoutRefused
from aimodels.delivery.copy.volume import refusing
from modelkit import archives, names
from modelkit.errors import NotAModel

if TYPE_CHECKING:
    from collections.abc import Collection

    from aimodels.delivery.copy.volume import Volume

_PIECE = 4 << 20
_MEMBER = "member"


class _PartReader:
    """Random access to the part, by its descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size

    @property
    def size(self) -> int:
        """Number of bytes in all."""
        return self._size

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``offset``."""
        return os.pread(self._descriptor, length, offset)


def unpack(volume: Volume, part: str, others: Collection[str]) -> list[Placed]:
    """Place every file of the part, which is whole and verified, and return them.

    Names that meet ``others`` are refused before the first file.
    """
    descriptor = volume.open_part(part, direct=False)
    try:
        found = members(descriptor, others)
        for member in reversed(found):
            _place(volume, descriptor, member)
            os.ftruncate(descriptor, member.start)
        return [Placed(member.path, member.size) for member in found]
    finally:
        os.close(descriptor)


def members(descriptor: int, others: Collection[str]) -> list[archives.Member]:
    """Return the files of the tar in its order, checked together with the other files of the model."""
    try:
        found = archives.layer_members(_PartReader(descriptor), "the tar layer")
        names.distinct([*others, *(member.path for member in found)])
    except (NotAModel, names.BadName) as error:
        raise LayoutRefused(f"the artifact's tar layer cannot be laid out: {error}") from error
    return found


def _place(volume: Volume, tar: int, member: archives.Member) -> None:
    with refusing("written"):
        volume.drop_part(_MEMBER)
        descriptor = volume.open_part(_MEMBER, direct=False)
        try:
            at, end = member.start, member.start + member.size
            while at < end:
                piece = os.pread(tar, min(_PIECE, end - at), at)
                if not piece:
                    raise LayoutRefused(f"the tar layer ends inside {member.path[:100]!a}")
                write_all(descriptor, piece)
                at += len(piece)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        volume.place(_MEMBER, member.path)


def write_all(descriptor: int, piece: bytes) -> None:
    """Write all of it at the descriptor's position."""
    view = memoryview(piece)
    while view:
        view = view[os.write(descriptor, view) :]
