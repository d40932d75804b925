"""``.ai-models/model.json``: what the directory is, for whoever reads it; the last file of a copy.

What belongs here: its content. What does not: placing it. It has no name of the model, since copies of equal
bytes are shared, and no clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from modelkit import names

if TYPE_CHECKING:
    from aimodels.delivery.copy.journal import Placed
    from modelkit.modelpack import Artifact

PATH = f"{names.RESERVED}/model.json"
VERSION = 1


class _File(msgspec.Struct, frozen=True, rename="camel"):
    path: str
    size_bytes: int


class Marker(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The marker's content; ``digest`` is the manifest's, ``size_bytes`` the artifact's logical size."""

    version: int
    digest: str
    size_bytes: int
    files: list[_File]
    format: str | None = None
    family: str | None = None


def marker(artifact: Artifact, files: list[Placed]) -> bytes:
    """Return the marker's bytes; equal models have equal markers."""
    facts = artifact.facts
    content = Marker(
        version=VERSION,
        digest=artifact.digest,
        size_bytes=artifact.size,
        files=[_File(file.path, file.size) for file in sorted(files, key=lambda file: file.path)],
        format=facts.format if facts else None,
        family=facts.family if facts else None,
    )
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
