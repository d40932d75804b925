"""How far a transfer is, told in few status writes.

What belongs here: numbers of ``status.transfer`` and when they are worth a write. What does not: where they
come from (``transfers``).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from aimodels.api.model import TransferStatus

if TYPE_CHECKING:
    from datetime import datetime

    from aimodels.api.reasons import TransferStage
    from aimodels.catalog.state import Bytes

#: percent between two writes: with the first and the last ones at most 20 for a transfer
STEP = 6
#: without a known total: growth between two writes
_GROWTH = 1.5
#: positions this near to the front are told one by one
_NEAR = 3
_ALMOST = 99
#: without a byte for so long there is no speed to tell
PAUSE = timedelta(seconds=30)

_LEAST_STALL = timedelta(minutes=2)
_MOST_STALL = timedelta(minutes=30)
_BYTES_PER_SECOND_OF_STALL = 50_000_000


def transfer_status(
    stage: TransferStage,
    moved: Bytes | None,
    old: TransferStatus | None,
    *,
    position: int | None = None,
    moving: bool = True,
) -> TransferStatus:
    """Return what the status should say: the old numbers while the new ones are not worth a write.

    What does not move has no speed, and nobody knows when it is done.
    """
    new = TransferStatus(stage=stage, queue_position=position)
    if moved is not None and moved.moved:
        new = TransferStatus(
            stage=stage,
            bytes=moved.moved,
            total_bytes=moved.total,
            bytes_per_second=int(moved.speed) if moved.speed else None,
            eta_seconds=_eta(moved),
            last_progress_time=moved.last_progress,
            queue_position=position,
        )
    told = new if old is None or _worth_telling(old, new) else old
    return told if moving else msgspec.structs.replace(told, bytes_per_second=None, eta_seconds=None)


def is_moving(moved: Bytes | None, now: datetime) -> bool:
    """Tell whether bytes arrived a moment ago."""
    return moved is not None and moved.last_progress is not None and now - moved.last_progress < PAUSE


def percent(transfer: TransferStatus | None) -> str | None:
    """Return ``NN%``, at most 99 as nothing is done before it is Ready, or None when it is not known."""
    done = _percent(transfer) if transfer is not None else None
    return None if done is None else f"{done}%"


def stall_deadline(total: int | None) -> timedelta:
    """Return for how long nothing may move before it is called stalled: longer for larger models."""
    grown = _LEAST_STALL + timedelta(seconds=(total or 0) / _BYTES_PER_SECOND_OF_STALL)
    return min(grown, _MOST_STALL)


def latest(*moments: datetime | None) -> datetime | None:
    """Return the latest of the moments that are known."""
    return max((one for one in moments if one is not None), default=None)


def _worth_telling(old: TransferStatus, new: TransferStatus) -> bool:
    if old.stage != new.stage:
        return True
    if new.queue_position != old.queue_position and _nearer(old.queue_position, new.queue_position):
        return True
    before, after = _percent(old), _percent(new)
    if after is None:
        return (new.bytes or 0) > (old.bytes or 0) * _GROWTH
    return before is None or abs(after - before) >= STEP


def _nearer(old: int | None, new: int | None) -> bool:
    """Far positions are told when they halve, so that a long queue does not write for every step."""
    return old is None or new is None or new <= _NEAR or new * 2 <= old or new > old * 2


def _percent(transfer: TransferStatus) -> int | None:
    if transfer.bytes is None or not transfer.total_bytes:
        return None
    return min(_ALMOST, transfer.bytes * 100 // transfer.total_bytes)


def _eta(moved: Bytes) -> int | None:
    if not moved.speed or moved.total is None:
        return None
    return max(0, round((moved.total - moved.moved) / moved.speed))
