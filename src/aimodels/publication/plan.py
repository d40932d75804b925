"""Which layers an upload becomes: one per weight file, and one tar for the small files around them. Pure."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from modelkit import archives, policy
from modelkit.modelpack import ROOT
from modelkit.policy import Action, Format

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from modelkit.archives import Member

#: small files go together up to so many bytes each and in all; larger ones are layers of their own
SMALL_FILE = 16 << 20
SMALL_FILES = 64 << 20
#: more do not fit into a manifest, and storing them for hours shows that no sooner
MOST_LAYERS = 8192


class Segment(msgspec.Struct, frozen=True):
    """A run of a layer's bytes: made here, or bytes ``start``.. of the upload."""

    size: int
    made: bytes | None = None
    start: int = 0


class PlannedLayer(msgspec.Struct, frozen=True):
    """A layer before its digest is known."""

    path: str
    kind: str
    encoding: str
    size: int
    segments: tuple[Segment, ...]

    def resume_key(self, owner: str, source: str) -> str:
        """Return the key under which every attempt finds this layer's upload again.

        The same key means the same bytes: source, places and made bytes go into it, so that neither another
        upload nor another version's layout is ever continued.
        """
        identity = sha256(source.encode() + b"\n" + msgspec.json.encode(self)).hexdigest()
        return f"{owner}/{identity}"


class Rejected(ValueError):
    """A file that stops the publication."""


def layers(model_format: Format, members: Iterable[Member]) -> list[PlannedLayer]:
    """Return the layers of an archive's model, in the order of their paths, the tar last.

    Raises:
        Rejected: the archive holds a file that may not be in a model.
    """
    kept = []
    for member in members:
        action = policy.action(model_format, member.path)
        if action is Action.REJECT:
            raise Rejected(
                f"{member.path!a} may not be in a model: programs and archives are refused; leave it out"
            )
        if action is Action.KEEP:
            kept.append(member)
    kept.sort(key=lambda member: member.path)
    small, left = [], SMALL_FILES
    planned = []
    for member in kept:
        weight = policy.is_weight(member.path) and member.size > 0
        if not weight and member.size <= min(SMALL_FILE, left):
            small.append(member)
            left -= member.size
        else:
            planned.append(_raw(member, "weight" if weight else "weight.config"))
    if len(planned) >= MOST_LAYERS:
        raise Rejected(
            f"{len(planned)} files are too many: at most {MOST_LAYERS} weight files fit an artifact"
        )
    return [*planned, _tar(small)] if small else planned


def _raw(member: Member, kind: str) -> PlannedLayer:
    segment = Segment(member.size, start=member.start)
    return PlannedLayer(member.path, kind, "raw", member.size, (segment,))


def _tar(members: Sequence[Member]) -> PlannedLayer:
    segments = []
    for member in members:
        header, padding = archives.header(member.path, member.size), archives.padding(member.size)
        segments.append(Segment(len(header), made=header))
        segments.append(Segment(member.size, start=member.start))
        segments.append(Segment(len(padding), made=padding))
    segments.append(Segment(len(archives.END), made=archives.END))
    filled = tuple(segment for segment in segments if segment.size)
    return PlannedLayer(ROOT, "weight.config", "tar", sum(segment.size for segment in filled), filled)
