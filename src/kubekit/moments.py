"""Moments as the API keeps them.

What belongs here: their precision. What does not: whose moment it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


def whole(moment: datetime) -> datetime:
    """Return the second that the moment lies in; what is rounded down is never in the future."""
    return moment.replace(microsecond=0)
