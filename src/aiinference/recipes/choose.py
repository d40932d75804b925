"""Which recipe a model gets.

What belongs here: the order of preference. What does not: whether it fits anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiinference.api.reasons import EndpointType
from aiinference.recipes.catalogue import RecipeSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiinference.recipes.catalogue import Catalogue, Record

_PREFERENCE = {source: rank for rank, source in enumerate(RecipeSource)}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a recipe is looked for by."""

    format: str | None
    family: str | None
    model: str
    endpoint: EndpointType
    #: of the hardware
    hardware: str
    #: whether a recipe that was made up will do
    fallback: bool = True


def choose(catalogue: Catalogue, wanted: Wanted) -> Record | None:
    """Return the recipe: compiled before preset before fallback, then the one that names the most."""
    found = [record for record in catalogue.recipes if _serves(record, wanted)]
    return min(found, key=_rank, default=None)


def endpoint(asked: EndpointType | None, supported: Sequence[str]) -> EndpointType:
    """Return the inference API to start for; an order that asks for none gets the model's first."""
    if asked is not None:
        return asked
    return next((one for one in EndpointType if one in supported), EndpointType.CHAT)


def _serves(record: Record, wanted: Wanted) -> bool:
    match = record.match
    return (
        wanted.format in match.formats
        and (not match.families or wanted.family in match.families)
        and (not match.models or wanted.model in match.models)
        and wanted.endpoint in record.variants
        and wanted.hardware in record.hardware
        and (wanted.fallback or record.source != RecipeSource.FALLBACK)
    )


def _rank(record: Record) -> tuple[int, bool, bool, str]:
    match = record.match
    return _PREFERENCE[record.source], not match.models, not match.families, record.name
