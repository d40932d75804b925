"""Which certificates of the catalogue are trusted: those that its ConfigMap tells.

What belongs here: reading that bundle, and keeping what was made of it. What does not: the connection.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from aiinference.models.outcomes import Unavailable
from kubekit.errors import KubeError, NotFound
from kubekit.resources import ConfigMap

if TYPE_CHECKING:
    from kubekit.client import Client
    from opskit.clock import Clock

#: a bundle changes long before the certificates that need it
FRESH_SECONDS = 60.0
_KEY = "ca.crt"


class Trust:
    """The catalogue's CAs, read again after a minute, and at once when a certificate did not fit."""

    def __init__(self, client: Client, namespace: str, name: str, clock: Clock) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._clock = clock
        self._text = ""
        self._context: ssl.SSLContext | None = None
        self._fresh_until = 0.0

    async def context(self) -> ssl.SSLContext:
        """Return what connections are checked against; ``Unavailable`` when that is not known."""
        if self._context is not None and self._clock.monotonic() < self._fresh_until:
            return self._context
        text = await self._read()
        if self._context is None or text != self._text:
            try:
                self._context = ssl.create_default_context(cadata=text)
            except ssl.SSLError as error:
                raise Unavailable(f"{self} holds no certificate under {_KEY}: {error}") from error
            self._text = text
        self._fresh_until = self._clock.monotonic() + FRESH_SECONDS
        return self._context

    def doubt(self) -> None:
        """Have the bundle read again before the next connection."""
        self._fresh_until = 0.0

    async def _read(self) -> str:
        try:
            found = await self._client.get(ConfigMap, self._name, self._namespace)
        except NotFound as error:
            raise Unavailable(f"{self} is not there; is ai-models installed?") from error
        except KubeError as error:
            raise Unavailable(f"{self} cannot be read: {error}") from error
        text = found.data.get(_KEY, "")
        if not text.strip():
            raise Unavailable(f"{self} has nothing under {_KEY}")
        return text

    def __str__(self) -> str:
        return f"ConfigMap {self._namespace}/{self._name}"
