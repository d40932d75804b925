"""The layers of a recipe become one: base, variant, hardware, strategy; a later one wins.

What belongs here: merging, pure. What does not: what the values mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from aiinference.recipes.catalogue import Layer, Sizing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiinference.api.reasons import EndpointType, LaunchStrategy
    from aiinference.recipes.catalogue import Record

V = TypeVar("V")


def merged(record: Record, endpoint: EndpointType, hardware: str, strategy: LaunchStrategy) -> Layer:
    """Return the recipe for one inference API, hardware family and strategy, without any null."""
    variant = record.variants[endpoint]
    whole = Layer()
    for layer in (record.base, variant, record.hardware[hardware], variant.strategies.get(strategy)):
        if layer is not None:
            whole = _over(whole, layer)
    return whole


def _over(under: Layer, layer: Layer) -> Layer:
    return Layer(
        arguments=_entries(under.arguments, layer.arguments),
        env=_entries(under.env, layer.env),
        sizing=_sizing(under.sizing, layer.sizing),
    )


def _entries(under: Mapping[str, V], over: Mapping[str, V]) -> dict[str, V]:
    """Keep the place of an entry that is replaced, so that a command's order is the one of its base."""
    return {name: value for name, value in {**under, **over}.items() if value is not None}


def _sizing(under: Sizing, over: Sizing) -> Sizing:
    given: dict[str, Any] = {
        name: value for name, value in msgspec.structs.asdict(over).items() if value is not None
    }
    return msgspec.structs.replace(under, **given)
