"""The catalogues of the planner as data: hardware families, engines, recipes.

What belongs here: their shapes, from which the JSON schemas of the YAML files are made, and reading what was
compiled from those. What does not: choosing and merging. Unknown members are refused: a misspelt one would
silently not count.
"""

from enum import StrEnum
from importlib import resources
from typing import Annotated

import msgspec
from msgspec import Meta

from aiinference.api.reasons import EndpointType, LaunchStrategy

_Name = Annotated[str, Meta(min_length=1, max_length=128)]
_Positive = Annotated[int, Meta(ge=1)]
_Count = Annotated[int, Meta(ge=0)]
_Size = Annotated[float, Meta(gt=0)]
_Option = Annotated[str, Meta(pattern="^--[a-z][a-z0-9-]*$")]
_Variable = Annotated[str, Meta(pattern="^[A-Z][A-Z0-9_]*$")]
_Port = Annotated[int, Meta(ge=1024, le=65535)]


class RecipeSource(StrEnum):
    """Where a recipe comes from; an earlier one is preferred."""

    COMPILED = "compiled"
    PRESET = "preset"
    FALLBACK = "fallback"


class _Part(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """Base of all parts."""


class Family(_Part, frozen=True, kw_only=True):
    """Hardware that one recipe layer is written for."""

    name: _Name
    #: what the status shows as the device class of an order that claims no device
    device_class: _Name
    #: the largest replica
    memory_limit_gib: Annotated[int, Meta(ge=1, le=1 << 20)] = msgspec.field(name="memoryLimitGiB")


class Engine(_Part, frozen=True, kw_only=True):
    """A server of inference APIs, at the version that its image has."""

    name: _Name
    version: _Name
    argument_list: _Name
    image: _Name
    entrypoint: Annotated[tuple[_Name, ...], Meta(min_length=1)]
    ports: dict[_Name, _Port]
    formats: Annotated[tuple[_Name, ...], Meta(min_length=1)]
    #: bits per weight of a whole file
    quantizations: dict[_Name, _Size]
    #: architecture -> how many layers there are for each that sees the whole context
    full_attention_every: dict[_Name, _Positive] = {}


class Cores(_Part, frozen=True, kw_only=True):
    """How many cores a model of so many bytes gets."""

    up_to_gib: _Size | None = msgspec.field(default=None, name="upToGiB")
    cores: _Positive


class Pooling(_Part, frozen=True, kw_only=True):
    """How vectors are made of tokens by a model that does not say it itself."""

    encoder: _Name
    decoder: _Name


class Sizing(_Part, frozen=True, kw_only=True):
    """Numbers that memory and arguments follow from; a later layer's replace an earlier one's."""

    context_tokens: _Positive | None = None
    least_context_tokens: _Positive | None = None
    parallel: _Positive | None = None
    batch_tokens: _Positive | None = None
    micro_batch_tokens: _Positive | None = None
    #: an input becomes one vector or score, not a text
    pooled: bool | None = None
    pooling: Pooling | None = None
    key_bytes: _Size | None = None
    value_bytes: _Size | None = None
    cache_mib: _Count | None = msgspec.field(default=None, name="cacheMiB")
    checkpoints: _Count | None = None
    overhead_mib: _Count | None = msgspec.field(default=None, name="overheadMiB")
    margin_percent: _Count | None = None
    cores: tuple[Cores, ...] | None = None


class Layer(_Part, frozen=True, kw_only=True):
    """What one layer of a recipe says; null takes away what an earlier one said."""

    arguments: dict[_Option, str | int | float | bool | None] = {}
    env: dict[_Variable, str | None] = {}
    sizing: Sizing = Sizing()


class Variant(Layer, frozen=True, kw_only=True):
    """The layer of one inference API, with its branches by strategy."""

    strategies: dict[LaunchStrategy, Layer] = {}


class Match(_Part, frozen=True, kw_only=True):
    """Which models a recipe is for; a list that is left out restricts nothing."""

    formats: Annotated[tuple[_Name, ...], Meta(min_length=1)]
    families: tuple[_Name, ...] = ()
    models: tuple[_Name, ...] = ()


class Record(_Part, frozen=True, kw_only=True):
    """One recipe in its layers."""

    name: _Name
    source: RecipeSource = RecipeSource.COMPILED
    engine: _Name
    match: Match
    base: Layer = Layer()
    variants: Annotated[dict[EndpointType, Variant], Meta(min_length=1)]
    hardware: Annotated[dict[_Name, Layer], Meta(min_length=1)]


class Families(_Part, frozen=True, kw_only=True):
    """``platform-hardware-families.yaml``."""

    version: Annotated[int, Meta(ge=1, le=1)]
    families: tuple[Family, ...]


class Taxonomy(_Part, frozen=True, kw_only=True):
    """``recipe-taxonomy.yaml``."""

    version: Annotated[int, Meta(ge=1, le=1)]
    engines: tuple[Engine, ...]


class Recipes(_Part, frozen=True, kw_only=True):
    """``runtime-recipes.compiled.yaml``."""

    version: Annotated[int, Meta(ge=1, le=1)]
    recipes: tuple[Record, ...]


class Catalogue(_Part, frozen=True, kw_only=True):
    """All of it."""

    families: tuple[Family, ...]
    engines: tuple[Engine, ...]
    recipes: tuple[Record, ...]

    def family(self, name: str) -> Family | None:
        """Return the hardware family of that name."""
        return next((one for one in self.families if one.name == name), None)

    def engine(self, name: str) -> Engine:
        """Return the engine of that name; compiling has checked that recipes name none that is missing."""
        return next(one for one in self.engines if one.name == name)


COMPILED = "data/catalogue.json"


def shipped() -> Catalogue:
    """Return the catalogue that belongs to this version."""
    text = resources.files("aiinference.recipes").joinpath(COMPILED).read_bytes()
    return msgspec.json.decode(text, type=Catalogue)
