"""Settings from environment variables into a frozen Struct, with every problem reported at once.

What belongs here: reading, converting and describing settings. What does not: any particular setting.

A field ``store_url`` with the prefix ``DMCR_`` is read from ``DMCR_STORE_URL``. An empty value counts as not
set, since that is how templates write "none". Sequences are comma-separated, mappings and sequences of
Structs are JSON, and a field that is a Struct is made from the variables that begin with its own name.
"""

from __future__ import annotations

import os
import re
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T", bound=msgspec.Struct)

REDACTED = "***"

#: The kubelet announces Services of the namespace by variables such as DMCR_SERVICE_HOST: not settings.
_SERVICE_LINK = re.compile(
    r"(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)


class SettingsError(Exception):
    """The environment does not make valid settings; the message names every variable to correct."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("settings are wrong, correct these variables: " + "; ".join(problems))
        self.problems = problems


def load(kind: type[T], environ: Mapping[str, str] | None = None, prefix: str = "") -> T:
    """Return the settings that the environment gives, or raise SettingsError with all that is wrong."""
    environ = os.environ if environ is None else environ
    problems = _unknown(environ, prefix, _variables(kind, prefix))
    found = _built(kind, environ, prefix, problems)
    if found is None or problems:
        raise SettingsError(problems)
    return found


def _variables(kind: type[msgspec.Struct], prefix: str) -> set[str]:
    """Return the names of all variables that the settings are made from."""
    names: set[str] = set()
    for field in msgspec.structs.fields(kind):
        name = prefix + field.name.upper()
        names |= _variables(field.type, name + "_") if _is_struct(field.type) else {name}
    return names


def _built(kind: type[T], environ: Mapping[str, str], prefix: str, problems: list[str]) -> T | None:
    """Return the settings, or None after adding to the problems."""
    values: dict[str, Any] = {}
    before = len(problems)
    for field in msgspec.structs.fields(kind):
        variable = prefix + field.name.upper()
        raw = environ.get(variable, "")
        if _is_struct(field.type):
            values[field.name] = _built(field.type, environ, variable + "_", problems)
        elif raw:
            try:
                values[field.name] = _convert(raw, field.type)
            except (msgspec.ValidationError, msgspec.DecodeError) as error:
                shown = REDACTED if field.name in _secrets(kind) else repr(raw)
                problems.append(f"{variable}={shown}: {error}")
        elif field.required:
            problems.append(f"{variable} is missing")
    if len(problems) == before:
        try:
            return kind(**values)
        except ValueError as error:
            problems.append(str(error))
    return None


def describe(settings: msgspec.Struct) -> dict[str, str]:
    """Return the settings as text for a log line; fields named in ``__secret_fields__`` are redacted."""
    hidden = _secrets(type(settings))
    shown: dict[str, str] = {}
    for field in msgspec.structs.fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, msgspec.Struct):
            shown |= {f"{field.name}_{name}": text for name, text in describe(value).items()}
        else:
            shown[field.name] = REDACTED if value and field.name in hidden else str(value)
    return shown


def _secrets(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(getattr(kind, "__secret_fields__", ()))


def _unknown(environ: Mapping[str, str], prefix: str, known: set[str]) -> list[str]:
    """Refuse misspelt variables; without a prefix there is no telling which ones are meant for us."""
    if not prefix:
        return []
    return [
        f"{variable} is not a setting"
        for variable in sorted(environ)
        if variable.startswith(prefix)
        and variable not in known
        and not _SERVICE_LINK.fullmatch(variable.removeprefix(prefix))
    ]


def _convert(raw: str, kind: Any) -> Any:
    value: Any = raw
    shapes = {typing.get_origin(option) or option for option in _options(kind)}
    sequence = bool(shapes & {tuple, list, set, frozenset})
    if dict in shapes or (sequence and any(map(_is_struct, typing.get_args(kind)))):
        value = msgspec.json.decode(raw)
    elif sequence:
        value = [item.strip() for item in raw.split(",") if item.strip()]
    return msgspec.convert(value, kind, strict=False, dec_hook=_decode_path)


def _options(kind: Any) -> tuple[Any, ...]:
    arguments = typing.get_args(kind)
    return arguments if type(None) in arguments else (kind,)


def _is_struct(shape: Any) -> bool:
    return isinstance(shape, type) and issubclass(shape, msgspec.Struct)


def _decode_path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError(f"settings cannot hold {kind.__name__}")
