"""Waits for things to become true, with the reason of the last failure in the error."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from devcluster.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable

PAUSE = 0.1


def wait_until(what: str, check: Callable[[], str | None], timeout: float = 60.0) -> None:
    """Call `check` until it returns None; otherwise it returns why it is not true yet."""
    deadline = time.monotonic() + timeout
    while (problem := check()) is not None:
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not reached within {timeout:.0f} s, {problem}")
        time.sleep(PAUSE)
