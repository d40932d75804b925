"""Bodies of ``POST /api/v1/launch-plan``.

What belongs here: the shapes on the wire, from which the committed OpenAPI is made. What does not: how a plan
comes about. Fields that a reader does not know are passed over, so that controller and planner may be of
different versions.
"""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from aiinference.api.reasons import EndpointType, Fallback, LaunchStrategy, PlacementMode, SharingMode
from aiinference.recipes.catalogue import RecipeSource
from aiinference.recipes.memory import Source
from modelkit.facts import NUMBER_LIMIT, Geometry

PATH = "/api/v1/launch-plan"

_NAME_LIMIT = 253
_WORD_LIMIT = 256
_MANY = 64


class RefusalReason(StrEnum):
    """Why there is no plan."""

    NO_CAPACITY = "NoCapacity"
    QUANTIZATION_MISMATCH = "QuantizationMismatch"
    NO_COMPATIBLE_RUNTIME = "NoCompatibleRuntimeAvailable"


_Name = Annotated[str, Meta(min_length=1, max_length=_NAME_LIMIT)]
#: becomes a value in a command line and a part of a path; ``$`` alone would let a line's end through
_SEGMENT = "[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
_ModelName = Annotated[str, Meta(max_length=_NAME_LIMIT, pattern=rf"^{_SEGMENT}(/{_SEGMENT})?(?![\s\S])")]
_Word = Annotated[str, Meta(max_length=_WORD_LIMIT)]
_Count = Annotated[int, Meta(ge=0, le=NUMBER_LIMIT)]
_Positive = Annotated[int, Meta(ge=1, le=NUMBER_LIMIT)]
_Percent = Annotated[int, Meta(ge=1, le=100)]
_Words = Annotated[tuple[_Word, ...], Meta(max_length=_MANY)]
_Gib = Annotated[float, Meta(ge=0)]


def _gib(wire: str) -> Any:
    """Return an optional field with GiB in its name, which the camel case of the others would spell wrong."""
    return msgspec.field(default=None, name=wire)


class _Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all bodies: what is unknown is absent."""


class Model(_Body, frozen=True, kw_only=True):
    """What is known about the model, in the words of the catalogue's lookup."""

    #: under which name the model is served and mounted
    name: _ModelName
    format: _Word | None = None
    family: _Word | None = None
    architecture: _Word | None = None
    parameter_count: _Positive | None = None
    active_parameter_count: _Positive | None = None
    quantization: _Word | None = None
    context_window_tokens: _Positive | None = None
    size_bytes: _Positive | None = None
    supported_endpoint_types: _Words = ()
    supported_features: _Words = ()
    facts: Geometry = Geometry()


class AcceleratorConstraints(_Body, frozen=True, kw_only=True):
    """The class's accelerator policy; the list of device classes is the order's and the class's in common."""

    #: absent = any
    device_classes: Annotated[tuple[_Name, ...], Meta(min_length=1, max_length=_MANY)] | None = None
    sharing_modes: Annotated[tuple[SharingMode, ...], Meta(max_length=_MANY)] = tuple(SharingMode)
    placement_types: Annotated[tuple[PlacementMode, ...], Meta(max_length=_MANY)] = tuple(PlacementMode)
    max_count: _Positive = 1
    min_share_percent: _Percent = 1
    max_share_percent: _Percent = 100
    fallback: Fallback = Fallback.NONE


class RuntimeFallback(_Body, frozen=True, kw_only=True):
    """Whether a recipe may be made up for a model that none was written for."""

    enabled: bool = True


class LaunchRequest(_Body, frozen=True, kw_only=True):
    """What a plan is made from."""

    model: Model
    #: absent for an order without a class
    endpoint_type: EndpointType | None = None
    launch_strategy: LaunchStrategy = LaunchStrategy.LATENCY
    accelerator: AcceleratorConstraints = AcceleratorConstraints()
    #: size as the order's path resolved it: the catalogue's, the order's own, or the one in the model's name
    parameter_count: _Positive | None = None
    runtime_fallback: RuntimeFallback = RuntimeFallback()
    replan_count: _Count = 0


class Resolved(_Body, frozen=True, kw_only=True):
    """The placement, as ``status.resolved`` shows it; without a device, only its class is there."""

    device_class: _Name
    accelerator_product_name: _Word | None = None
    accelerator_memory_gib: _Positive | None = _gib("acceleratorMemoryGiB")
    placement_mode: PlacementMode | None = None
    sharing_mode: SharingMode | None = None
    share_percent: _Percent | None = None
    replan_count: _Count = 0


class Resources(_Body, frozen=True, kw_only=True):
    """What one replica asks of its node."""

    #: a quantity of Kubernetes
    cpu: str
    #: request and limit
    memory_bytes: _Positive


class Recipe(_Body, frozen=True, kw_only=True):
    """How the runtime container is started."""

    name: str
    engine: str
    engine_version: str
    image: str
    #: the whole line
    command: tuple[str, ...]
    env: dict[str, str] = {}
    resources: Resources
    ports: dict[str, int]
    model_path: str
    context_tokens: _Positive
    parallel: _Positive


class Need(_Body, frozen=True, kw_only=True):
    """What the memory of one replica is made of, and what it was worked out from."""

    weights_bytes: _Count
    kv_bytes: _Count
    compute_bytes: _Count
    cache_bytes: _Count
    overhead_bytes: _Count
    total_bytes: _Positive
    source: Source


class LaunchPlan(_Body, frozen=True, kw_only=True, tag_field="outcome", tag="Planned"):
    """How and where the order runs."""

    resolved: Resolved
    accelerator_count: _Count = 0
    recipe: Recipe
    recipe_source: RecipeSource
    need: Need
    vram_minimum_gib: _Gib | None = _gib("vramMinimumGiB")
    #: of all that runs by this plan; the same digest means that nothing has to be started again
    digest: Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$")]


class Candidate(_Body, frozen=True, kw_only=True):
    """One place that was looked at, and why it does not do."""

    name: str
    device_class: str | None = None
    reason: RefusalReason
    message: str
    need_gib: _Gib | None = _gib("needGiB")
    available_gib: _Gib | None = _gib("availableGiB")
    missing_gib: _Gib | None = _gib("missingGiB")


class Refusal(_Body, frozen=True, kw_only=True, tag_field="outcome", tag="Refused"):
    """Why the order cannot run as things are, and the smallest change that would do."""

    reason: RefusalReason
    message: str
    next_step: str
    candidates: tuple[Candidate, ...] = ()


Answer = LaunchPlan | Refusal
