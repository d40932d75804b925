"""Which StorageClass claims are made of. Pure.

What belongs here: the order of the choice and its two refusals. What does not: reading settings or the
cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aimodels.api.reasons import DeliveryBlockedReason
from aimodels.delivery.state import Blocked

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_SETTING = "delivery.sharedPVCStorageClassName"


def choose(configured: Sequence[str], existing: Collection[str], defaults: Sequence[str]) -> str | Blocked:
    """Return the first class that is configured, else the cluster's one default, or why there is none.

    A configured class that does not exist is not passed over: somebody meant it.
    """
    for name in configured:
        if name:
            return name if name in existing else _missing(f"The StorageClass {name} does not exist")
    if len(defaults) > 1:
        shown = ", ".join(sorted(defaults))
        return Blocked(
            DeliveryBlockedReason.SHARED_PVC_STORAGE_CLASS_AMBIGUOUS,
            f"The cluster has several default StorageClasses ({shown}). "
            f"An administrator names one with ReadWriteMany in {_SETTING} of the module ai-models.",
            hard=True,
        )
    if not defaults:
        return _missing("The cluster has no default StorageClass")
    return defaults[0]


def _missing(what: str) -> Blocked:
    return Blocked(
        DeliveryBlockedReason.SHARED_PVC_STORAGE_CLASS_MISSING,
        f"{what}. An administrator names a class with ReadWriteMany in {_SETTING} of the module ai-models.",
        hard=True,
    )
