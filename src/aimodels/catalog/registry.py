"""The catalogue's client of DMCR: made when the certificates are there, and known to answer or not.

What belongs here: the one client and since when it fails. What does not: what is asked.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from modelio.registry import (
    DigestMismatch,
    GrantSource,
    NotFound,
    Patience,
    Refused,
    RegistryClient,
    SessionLost,
)
from opskit import metrics
from opskit.logging import logger

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from pathlib import Path

    from modelio.registry import RegistryError
    from opskit.clock import Clock

_LOG = logger(__name__)
#: failing for so long is told to people; a restart of the registry is shorter
TOLD_AFTER = 10.0

_UP = metrics.gauge("dmcr_reachable", "0 while the registry does not answer the catalogue.")


class Registry:
    """DMCR as the catalogue sees it.

    Whatever goes wrong between us and our own store is never a model's fault: after ``TOLD_AFTER`` seconds
    ``problem`` says it, and every waiting model shows it.
    """

    def __init__(self, url: str, token_file: Path | None, clock: Clock) -> None:
        self._url = url
        self._token_file = token_file
        self._clock = clock
        self._listeners: list[Callable[[], None]] = []
        self._client: RegistryClient | None = None
        self._made = asyncio.Event()
        self._failing_since: float | None = None
        self.problem = ""
        _UP.set(1)

    def tell(self, listener: Callable[[], None]) -> None:
        """Call the listener whenever ``problem`` comes or goes, or the certificates to trust are others."""
        self._listeners.append(listener)

    def changed(self) -> None:
        """Tell every listener: what models say of the registry, or of how it is reached, may be another."""
        for listener in self._listeners:
            listener()

    async def client(self) -> RegistryClient:
        """Return the client, waiting for the certificates if need be."""
        await self._made.wait()
        assert self._client is not None  # noqa: S101 - the event says so
        return self._client

    async def trust(self, tls: ssl.SSLContext | None) -> None:
        """Talk to the registry with this trust from now on."""
        old = self._client
        auth = GrantSource(self._token_file) if self._token_file is not None else None
        patience = Patience(connect=5.0, stall=15.0, retry=0)
        self._client = RegistryClient(self._url, tls=tls, auth=auth, patience=patience)
        self._made.set()
        self.changed()
        if old is not None:
            await old.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    def answered(self) -> None:
        """Note that the registry did what it was asked."""
        self._failing_since = None
        _UP.set(1)
        if self.problem:
            self.problem = ""
            _LOG.info("the registry answers again")
            self.changed()

    def failed(self, error: RegistryError) -> None:
        """Note that it did not."""
        now = self._clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            _LOG.warning("the registry does not answer", err=error)
        _UP.set(0)
        if not self.problem and now - self._failing_since >= TOLD_AFTER:
            self.problem = problem_text(error)
            self.changed()


def is_outage(error: RegistryError) -> bool:
    """Tell whether the error is about our own store as a whole, not about what one model has in it.

    A 404 without one of the registry's own codes did not come from the registry.
    """
    if isinstance(error, NotFound):
        return not (error.code or "").endswith("_UNKNOWN")
    return not isinstance(error, DigestMismatch | Refused | SessionLost)


def problem_text(error: RegistryError) -> str:
    """Return what people are told when our own registry does not serve us."""
    return (
        f"The registry of the module does not serve the catalogue ({error}). Everything waits and goes on by "
        "itself; look at Deployment dmcr and at the store's space and credentials."
    )
