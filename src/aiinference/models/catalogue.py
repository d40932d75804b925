"""The catalogue as the controller asks it: one way after another, in the same call.

What belongs here: the order of the ways, and what is said when none works. What does not: any single way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from aiinference.api.reasons import OrderReason
from aiinference.models.outcomes import Refusal, Unavailable
from opskit import logging, metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiinference.models.facts import ModelFacts
    from aiinference.models.reference import Reference

_log = logging.logger(__name__)

_LOOKUPS = metrics.counter(
    "inference_model_lookups",
    "Questions to the catalogue by transport and what came of them.",
    ["transport", "result"],
)


class Catalogue(Protocol):
    """Tells what is known of a model."""

    async def facts(self, reference: Reference) -> ModelFacts | Refusal:
        """Return the facts of a model that is ready, or why there are none; raises nothing."""
        ...


class Transport(Protocol):
    """One way to the catalogue."""

    @property
    def name(self) -> str:
        """Return the word for it in settings and metrics."""
        ...

    async def facts(self, reference: Reference) -> ModelFacts | Refusal:
        """Return the facts, or what the catalogue says instead; ``Unavailable`` when it says nothing."""
        ...


class Transports:
    """A catalogue that is asked by the first way that works."""

    def __init__(self, ways: Sequence[Transport]) -> None:
        self._ways = tuple(ways)

    async def facts(self, reference: Reference) -> ModelFacts | Refusal:
        """Return what the first way that works tells; a refusal of the catalogue itself is an answer too."""
        failed: list[str] = []
        for way in self._ways:
            try:
                found = await way.facts(reference)
            except Unavailable as error:
                _LOOKUPS.labels(way.name, "unavailable").inc()
                _log.warning("catalogue not reached", transport=way.name, model=str(reference), err=error)
                failed.append(f"{way.name}: {error}")
                continue
            _LOOKUPS.labels(way.name, found.reason if isinstance(found, Refusal) else "found").inc()
            return found
        return Refusal(
            OrderReason.CATALOG_UNAVAILABLE,
            f"The catalogue cannot be asked about {reference} ({'; '.join(failed)}). It is asked again; if "
            "this stays, look at the Deployment ai-models-api and at the rights of this controller.",
        )


class NoCatalogue:
    """What stands in its place where the administrator has turned it off."""

    async def facts(self, reference: Reference) -> ModelFacts | Refusal:
        """Refuse."""
        return Refusal(
            OrderReason.CATALOG_DISABLED,
            f"{reference} is not looked for, because the use of the catalogue is turned off in this cluster "
            "(catalog.mode is None in ModuleConfig ai-inference). Ask the administrator to turn it on.",
        )
