"""The plan's outcome as people see it: status and events, written on difference only.

What belongs here: comparing and writing. What does not: what it says (``statuses``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from aimodels.api.model import API_VERSION
from aimodels.api.reasons import Phase
from opskit import metrics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aimodels.api.model import AnyModel, ModelStatus
    from aimodels.catalog.state import Note
    from kubekit.apply import Applier
    from kubekit.events import Recorder

#: phases that must not be written over a state that nobody looked at
_GUARDED = (Phase.READY, Phase.FAILED)

_WRITES = metrics.counter("model_status_writes", "Writes of a model's status by phase.", ["phase"])


class Reporter:
    """Writes statuses and events of models."""

    def __init__(self, applier: Applier, recorder: Recorder) -> None:
        self._applier = applier
        self._recorder = recorder

    async def status(self, model: AnyModel, status: ModelStatus | None) -> str | None:
        """Write the status if it differs; return the object's new version when something was written.

        Ready and Failed are written over the very version that was judged, everything else over this life of
        the object.
        """
        if status is None or same(model.status, status):
            return None
        metadata: dict[str, Any] = {"name": model.metadata.name, "uid": model.metadata.uid}
        if model.metadata.namespace:
            metadata["namespace"] = model.metadata.namespace
        if status.phase in _GUARDED:
            metadata["resourceVersion"] = model.metadata.resource_version
        answer = await self._applier.status(
            {
                "apiVersion": API_VERSION,
                "kind": model.KIND.name,
                "metadata": metadata,
                "status": msgspec.to_builtins(status),
            }
        )
        _WRITES.labels(status.phase).inc()
        return str(answer["metadata"]["resourceVersion"])

    async def notes(self, model: AnyModel, notes: Iterable[Note]) -> None:
        """Record events."""
        for note in notes:
            kind: Any = "Warning" if note.warning else "Normal"
            await self._recorder.event(model, kind, note.event, note.message)


def same(old: ModelStatus | None, new: ModelStatus) -> bool:
    """Tell whether two statuses say the same as the API keeps them."""
    return old is not None and msgspec.to_builtins(old) == msgspec.to_builtins(new)
