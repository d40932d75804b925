"""How an attempt ends: exit codes, and the reason that the catalogue reads from the termination message."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import msgspec

from opskit.logging import logger

if TYPE_CHECKING:
    from pathlib import Path

    from aimodels.api.reasons import ModelReason

#: the kubelet keeps 4096 bytes of a termination message: room for so many characters of any kind
_LONGEST = 1000
_log = logger(__name__)


class Exit(IntEnum):
    """Exit codes; everything but DONE and PERMANENT means that another attempt may succeed."""

    DONE = 0
    TRANSIENT = 1
    WRONG_SETTINGS = 2
    PERMANENT = 3


class Refused(Exception):
    """What was uploaded cannot be published; no repetition changes that."""

    def __init__(self, reason: ModelReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Interrupted(Exception):
    """This attempt cannot go on, another one may."""


def tell(file: Path, reason: str, message: str) -> None:
    """Leave the reason where the kubelet looks; without such a file the log has to do."""
    text = "".join(one if one.isprintable() else " " for one in message[:_LONGEST])
    try:
        file.write_bytes(msgspec.json.encode({"reason": reason, "message": text}))
    except OSError as error:
        _log.warning("no termination message", err=error)
