"""The catalogue's client as the settings say.

What belongs here: putting transports together. What does not: any of them.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import aiohttp

from aiinference.models.catalogue import NoCatalogue, Transports
from aiinference.models.cluster import Kubernetes
from aiinference.models.rest import Rest
from aiinference.models.trust import Trust
from opskit.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiinference.models.catalogue import Catalogue
    from aiinference.models.rest import RestSettings
    from kubekit.client import Client


class Mode(StrEnum):
    """Whether the catalogue is used; ``catalog.mode``."""

    ENABLED = "Enabled"
    NONE = "None"


class TransportName(StrEnum):
    """How it is asked first; ``aiInference.aiModels.catalogTransport``."""

    REST = "Rest"
    KUBERNETES = "Kubernetes"


@dataclass(frozen=True, slots=True)
class CatalogueSettings:
    """Whether and how the catalogue is asked."""

    rest: RestSettings
    mode: Mode = Mode.ENABLED
    transport: TransportName = TransportName.REST
    #: where the catalogue tells which certificates are its own
    trust_namespace: str = "d8-ai-models"
    trust_config_map: str = "ai-models-trust"


@asynccontextmanager
async def opened(
    settings: CatalogueSettings, client: Client, clock: Clock | None = None
) -> AsyncIterator[Catalogue]:
    """Give the catalogue's client; its connections are closed at the end."""
    if settings.mode is Mode.NONE:
        yield NoCatalogue()
        return
    by_object = Kubernetes(client)
    if settings.transport is TransportName.KUBERNETES:
        yield Transports([by_object])
        return
    trust = Trust(client, settings.trust_namespace, settings.trust_config_map, clock or SystemClock())
    session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False)
    async with session:
        yield Transports([Rest(session, trust, settings.rest), by_object])
