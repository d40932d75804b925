"""The line that starts an engine, from a merged recipe and the values of its placeholders.

What belongs here: filling in and writing down. What does not: where the values come from.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiinference.recipes.catalogue import Engine, Layer

    Value = str | int | float | bool

PLACEHOLDER = re.compile(r"\{([a-zA-Z]+)\}")

#: every name that a recipe may put in braces
NAMES = frozenset(
    {
        "model",
        "name",
        "port",
        "contextTotal",
        "parallel",
        "batch",
        "microBatch",
        "threads",
        "cacheMiB",
        "checkpoints",
        "pooling",
    }
)


def line(engine: Engine, layer: Layer, values: Mapping[str, Value | None]) -> tuple[str, ...]:
    """Return the whole command; an option whose value is not known is left out."""
    words = list(engine.entrypoint)
    for option, value in layer.arguments.items():
        words += _written(option, value, values)
    return tuple(words)


def _written(option: str, value: Value | None, values: Mapping[str, Value | None]) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    text = str(value)
    if any(values[name] is None for name in PLACEHOLDER.findall(text)):
        return []
    return [option, PLACEHOLDER.sub(lambda found: str(values[found[1]]), text)]
