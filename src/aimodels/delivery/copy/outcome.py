"""Why a copy cannot be done, or not by this attempt: the reasons.

What belongs here: what the controller learns. What does not: what was tried.

Error tree::

    jobs.worker.Refused
    ├── VolumeRefused       the volume cannot be written, or holds what is not ours
    ├── VolumeFull          there is not enough space
    └── LayoutRefused       the artifact has a form that this version cannot lay out
    jobs.worker.Interrupted
    └── Mismatch            bytes do not have their digest; the next attempt begins that file anew
"""

from __future__ import annotations

from aimodels.api.reasons import DeliveryBlockedReason, ModelReason
from aimodels.jobs.worker import Interrupted, Refused


class VolumeRefused(Refused):
    """The volume cannot be written, or holds something that is not ours."""

    reason = DeliveryBlockedReason.SHARED_PVC_CLAIM_PENDING


class VolumeFull(Refused):
    """There is not enough space on the volume."""

    reason = ModelReason.INSUFFICIENT_STORAGE


class LayoutRefused(Refused):
    """The artifact has a form that this version cannot lay out."""

    reason = ModelReason.MANIFEST_INVALID


class Mismatch(Interrupted):
    """What was read does not have the digest that names it."""
