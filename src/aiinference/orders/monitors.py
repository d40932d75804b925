"""Whether the cluster knows PodMonitors, which may change at any time.

What belongs here: asking that, now and then. What does not: the PodMonitors of orders (``workload.upkeep``).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from kubekit.errors import ApiError, NotFound, fields_of
from opskit import logging

if TYPE_CHECKING:
    from kubekit.client import Client
    from opskit.clock import Clock

#: Prometheus's operator may be installed, or removed, after this process was started
FRESH_SECONDS = 60.0
_PATH = "/apis/monitoring.coreos.com/v1"
_KIND = "podmonitors"

_log = logging.logger(__name__)


class _Named(msgspec.Struct):
    name: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Named] = []


class Monitors:
    """Knows it, one question a minute for all orders."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known = False
        self._fresh_until: float | None = None
        #: whoever comes while it is asked waits for the same answer
        self._asking = asyncio.Lock()

    async def known(self) -> bool:
        """Tell whether there is such a kind; what cannot be asked is as it was."""
        async with self._asking:
            now = self._clock.monotonic()
            if self._fresh_until is None or now >= self._fresh_until:
                self._known = await self._asked()
                self._fresh_until = now + FRESH_SECONDS
            return self._known

    async def _asked(self) -> bool:
        try:
            found = msgspec.json.decode(await self._client.request("GET", _PATH), type=_Resources)
        except NotFound:
            return False
        except (ApiError, msgspec.DecodeError) as error:
            _log.warning("it is not known whether metrics can be read", **fields_of(error))
            return self._known
        return any(one.name == _KIND for one in found.resources)
