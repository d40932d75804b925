"""Events about objects: what people see in ``kubectl describe``.

What belongs here: writing one, and finding the newest of what others wrote. What does not: deciding when;
callers write on transitions only, so that an object's story stays short.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from kubekit.errors import KubeError
from kubekit.moments import whole
from kubekit.wire import Undecodable
from opskit.logging import logger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.client import Client
    from kubekit.resources import Event, Resource

_LOG = logger(__name__)
#: limits of the API, in characters
_MESSAGE_LIMIT = 1024
_NAME_LIMIT = 230


class Recorder:
    """Writes events in the name of one component; an event that cannot be written is logged and forgotten."""

    def __init__(self, client: Client, component: str, instance: str = "") -> None:
        self._client = client
        self._component = component
        self._instance = instance or component

    async def event(
        self, about: Resource | Undecodable, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        """Record one event about the object."""
        metadata = about.metadata
        about_kind = about.kind if isinstance(about, Undecodable) else about.KIND
        # Events of cluster-wide objects live in the namespace "default", where kubectl looks for them.
        namespace = metadata.namespace or "default"
        now = whole(datetime.now(UTC)).isoformat().replace("+00:00", "Z")
        manifest = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{metadata.name[:_NAME_LIMIT]}.{secrets.token_hex(8)}",
                "namespace": namespace,
            },
            "involvedObject": {
                "apiVersion": about_kind.api_version,
                "kind": about_kind.name,
                "namespace": metadata.namespace,
                "name": metadata.name,
                "uid": metadata.uid,
            },
            "type": kind,
            "reason": reason,
            "message": message[:_MESSAGE_LIMIT],
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self._client.create(manifest)
        except KubeError as error:
            _LOG.warning("event not written", reason=reason, object=metadata.name, err=error)


def newest(events: Iterable[Event]) -> Event | None:
    """Return the event that happened last; a series counts by its last occurrence."""
    return max(events, key=_when, default=None)


def _when(event: Event) -> datetime:
    known = (event.last_timestamp, event.event_time, event.metadata.creation_timestamp)
    return max((moment for moment in known if moment is not None), default=datetime.min.replace(tzinfo=UTC))
