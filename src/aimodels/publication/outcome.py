"""Why something that was uploaded cannot be published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aimodels.jobs import worker

if TYPE_CHECKING:
    from aimodels.api.reasons import ModelReason


class Refused(worker.Refused):
    """What was uploaded cannot be published; no repetition changes that."""

    def __init__(self, reason: ModelReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
