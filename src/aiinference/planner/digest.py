"""The digest of a plan: the same for whatever runs the same.

What belongs here: which parts of a plan count, and canonical JSON. What does not: anything about recipes.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from aiinference.planner.contract import Recipe, Resolved


def digest(resolved: Resolved, accelerator_count: int, recipe: Recipe) -> str:
    """Return the digest of placement and launch.

    How often was planned, what the need was worked out from and where the recipe is from do not count: a
    running workload is the same without them.
    """
    placement = msgspec.to_builtins(msgspec.structs.replace(resolved, replan_count=0))
    parts: dict[str, Any] = {
        "acceleratorCount": accelerator_count,
        "recipe": msgspec.to_builtins(recipe),
        "resolved": placement,
    }
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"
