"""Whether a line is one that an engine takes, by the list of options of exactly that version of the engine.

The lists lie in ``tools/engine-args``: facts read from the engines' sources.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LISTS = Path(__file__).resolve().parent / "engine-args"


class Options:
    """The options of one engine at one version."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.version = document["version"]
        self._options = {option["name"]: option for option in document["options"]}
        self._switches = {
            spelling
            for option in document["options"]
            for spelling in option.get("negation", [])
            if spelling.startswith("--")
        }

    @property
    def names(self) -> frozenset[str]:
        """Return the spelling of every option."""
        return frozenset(self._options)

    @classmethod
    def read(cls, name: str) -> Options:
        """Return a committed list."""
        return cls(json.loads((LISTS / f"{name}.json").read_text()))

    def problems(self, words: Sequence[str]) -> list[str]:
        """Return what the engine would not take of a line, without its entry point."""
        found = []
        rest = list(words)
        while rest:
            option = rest.pop(0)
            if option in self._switches:
                continue
            known = self._options.get(option)
            if known is None:
                found.append(f"{option} is no option of {self.version}")
                rest = _after_values(rest)
            elif known.get("removed") or known["deprecated"]:
                found.append(f"{option} is not to be used any more in {self.version}")
                rest = _after_values(rest)
            elif known["type"] != "bool":
                found += _value(option, known, rest.pop(0) if rest else None)
            if rest and not rest[0].startswith("--"):
                found.append(f"{option} takes no {rest.pop(0)!r}")
        return found


def _after_values(rest: list[str]) -> list[str]:
    """Skip what belongs to an option that is not known."""
    while rest and not rest[0].startswith("--"):
        rest = rest[1:]
    return rest


def _value(option: str, known: dict[str, Any], value: str | None) -> list[str]:
    if value is None or value.startswith("--"):
        return [f"{option} needs a value"]
    if known["type"] in {"int", "float"} and not _is(known["type"], value, known.get("accepts", [])):
        return [f"{option} takes a number, not {value!r}"]
    if known["type"] == "enum" and value not in [str(choice) for choice in known["choices"]]:
        return [f"{option} takes {', '.join(str(choice) for choice in known['choices'])}, not {value!r}"]
    return []


def _is(kind: str, value: str, words: Iterable[str]) -> bool:
    try:
        int(value) if kind == "int" else float(value)
    except ValueError:
        return value in words
    return True
