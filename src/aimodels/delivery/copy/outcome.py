"""How a copy ends when it cannot be done: reasons, exit codes, the termination message.

What belongs here: what the controller learns. What does not: what was tried.

Error tree::

    Refused                 base: trying again cannot help; ``reason`` is a word of the closed vocabularies
    ├── VolumeRefused       the volume cannot be written, or holds what is not ours
    ├── VolumeFull          there is not enough space
    └── LayoutRefused       the artifact has a form that this version cannot lay out
    Mismatch                bytes do not have their digest; the next attempt begins that file anew
"""

from __future__ import annotations

import contextlib
from enum import IntEnum
from typing import TYPE_CHECKING

import msgspec

from aimodels.api.reasons import DeliveryBlockedReason, ModelReason

if TYPE_CHECKING:
    from pathlib import Path

_MOST_MESSAGE = 3000


class Exit(IntEnum):
    """Exit codes of the process; anything but DONE and PERMANENT is tried again by the Job."""

    DONE = 0
    TRANSIENT = 1
    WRONG_SETTINGS = 2
    PERMANENT = 3


class Refused(Exception):
    """The copy cannot be done as things are; the message says what, why and the next step."""

    reason: str = ModelReason.MANIFEST_INVALID


class VolumeRefused(Refused):
    """The volume cannot be written, or holds something that is not ours."""

    reason = DeliveryBlockedReason.SHARED_PVC_CLAIM_PENDING


class VolumeFull(Refused):
    """There is not enough space on the volume."""

    reason = ModelReason.INSUFFICIENT_STORAGE


class LayoutRefused(Refused):
    """The artifact has a form that this version cannot lay out."""

    reason = ModelReason.MANIFEST_INVALID


class Mismatch(Exception):
    """What was read does not have the digest that names it."""


class _Message(msgspec.Struct):
    reason: str
    message: str


def tell(path: Path, reason: str, message: str) -> None:
    """Write the termination message, where the kubelet provides the file."""
    if not path.exists():
        return
    with contextlib.suppress(OSError):
        path.write_bytes(msgspec.json.encode(_Message(reason, message[:_MOST_MESSAGE])))
