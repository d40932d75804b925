"""What the cluster has to run orders on, as the planner sees it.

What belongs here: one frozen value. What does not: where it is read (``source``).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One device of one node."""

    name: str
    product: str
    #: None: its driver has not told yet
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """All accelerators of the cluster; their order means nothing."""

    accelerators: tuple[Accelerator, ...] = ()
