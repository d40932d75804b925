"""How and where an order runs. Pure: request, recipes and inventory in, a plan or a refusal out.

What belongs here: the choice of hardware, and the plan for the processor. What does not: reading any of the
three, and the words of refusals (``refusals``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiinference.api.reasons import Fallback, LaunchStrategy
from aiinference.planner import refusals
from aiinference.planner.contract import LaunchPlan, Need, Recipe, Refusal, Resolved, Resources
from aiinference.planner.digest import digest
from aiinference.recipes import choose, command, memory, sizing
from aiinference.recipes.memory import GIB
from aiinference.recipes.merge import merged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiinference.api.reasons import EndpointType
    from aiinference.planner.contract import LaunchRequest
    from aiinference.planner.inventory import Inventory
    from aiinference.recipes.catalogue import Catalogue, Engine, Family, Layer, Record
    from aiinference.recipes.sizing import Sized

#: where delivery mounts the models of a workload
MODELS_DIR = "/data/modelcache/models"
PROCESSOR = "cpu"


@dataclass(frozen=True, slots=True)
class Recipes:
    """The catalogue, and where the images of its engines are."""

    catalogue: Catalogue
    images: Mapping[str, str]


def plan(request: LaunchRequest, recipes: Recipes, inventory: Inventory) -> LaunchPlan | Refusal:
    """Return the plan for an order whose class has an accelerator policy."""
    if inventory.accelerators:
        return refusals.no_recipe_for_accelerators(request, inventory)
    if request.accelerator.fallback != Fallback.CPU:
        return refusals.no_accelerators()
    return on_processor(request, recipes)


def on_processor(request: LaunchRequest, recipes: Recipes) -> LaunchPlan | Refusal:
    """Return the plan for a node's cores, which is also that of a class without an accelerator policy."""
    catalogue = recipes.catalogue
    family = catalogue.family(PROCESSOR)
    endpoint = choose.endpoint(request.endpoint_type, request.model.supported_endpoint_types)
    record = choose.choose(catalogue, _wanted(request, endpoint))
    if family is None or record is None:
        return refusals.no_recipe(request, endpoint, catalogue)
    start = _Start(request, endpoint, record, catalogue.engine(record.engine), family)
    quantization = request.model.quantization
    if quantization is not None and quantization not in start.engine.quantizations:
        return refusals.quantization(quantization, start.engine)
    sized = start.sized(request.launch_strategy)
    if sized is None:
        return refusals.unknown_size(request)
    if sized.estimate.total > start.limit:
        return refusals.too_large(sized, family, start.smaller())
    image = recipes.images.get(start.engine.image)
    return refusals.no_image(start.engine) if image is None else _planned(start, sized, image)


def _wanted(request: LaunchRequest, endpoint: EndpointType) -> choose.Wanted:
    model = request.model
    return choose.Wanted(
        model.format, model.family, model.name, endpoint, PROCESSOR, request.runtime_fallback.enabled
    )


@dataclass(frozen=True, slots=True)
class _Start:
    """An order with the recipe and the hardware that were chosen for it."""

    request: LaunchRequest
    endpoint: EndpointType
    record: Record
    engine: Engine
    family: Family

    @property
    def limit(self) -> int:
        """Return the bytes of the largest replica."""
        return self.family.memory_limit_gib * GIB

    @property
    def subject(self) -> memory.Subject:
        """Return what is known about the model's size and shape."""
        model = self.request.model
        return memory.Subject(
            geometry=model.facts,
            architecture=model.architecture,
            parameters=model.parameter_count or self.request.parameter_count,
            size_bytes=model.size_bytes,
            bits_per_weight=self.engine.quantizations.get(model.quantization or ""),
            full_attention_every=self.engine.full_attention_every.get(model.architecture or "", 1),
        )

    def layer(self, strategy: LaunchStrategy) -> Layer:
        """Return the recipe's layers in one."""
        return merged(self.record, self.endpoint, self.family.name, strategy)

    def sized(self, strategy: LaunchStrategy) -> Sized | None:
        """Return the numbers of one replica, or None when the model's size is not known."""
        window = self.request.model.context_window_tokens
        return sizing.size(self.layer(strategy).sizing, self.subject, window, self.limit)

    def smaller(self) -> tuple[LaunchStrategy, Sized] | None:
        """Return a strategy under which the order would fit after all."""
        for strategy in LaunchStrategy:
            sized = self.sized(strategy)
            if sized and sized.estimate.total <= self.limit:
                return strategy, sized
        return None


def _planned(start: _Start, sized: Sized, image: str) -> LaunchPlan:
    recipe, need = _recipe(start, sized, image), sized.estimate
    resolved = Resolved(device_class=start.family.device_class, replan_count=start.request.replan_count)
    return LaunchPlan(
        resolved=resolved,
        recipe=recipe,
        recipe_source=start.record.source,
        need=Need(
            weights_bytes=need.weights,
            kv_bytes=need.kv,
            compute_bytes=need.compute,
            cache_bytes=need.cache,
            overhead_bytes=need.overhead,
            total_bytes=need.total,
            source=need.source,
        ),
        digest=digest(resolved, 0, recipe),
    )


def _recipe(start: _Start, sized: Sized, image: str) -> Recipe:
    engine, launch, name = start.engine, sized.launch, start.request.model.name
    layer = start.layer(start.request.launch_strategy)
    path = f"{MODELS_DIR}/{name}"
    pooling = sizing.pooling(layer.sizing, start.subject)
    values: dict[str, command.Value | None] = {
        "model": path,
        "name": name,
        "port": engine.ports["http"],
        "contextTotal": launch.context_total,
        "parallel": launch.parallel,
        "batch": sized.batch,
        "microBatch": launch.micro_batch,
        "threads": sized.cores,
        "cacheMiB": layer.sizing.cache_mib or 0,
        "checkpoints": launch.checkpoints,
        "pooling": None if pooling == start.request.model.facts.pooling else pooling,
    }
    return Recipe(
        name=start.record.name,
        engine=engine.name,
        engine_version=engine.version,
        image=image,
        command=command.line(engine, layer, values),
        env={name: value for name, value in layer.env.items() if value is not None},
        resources=Resources(cpu=str(sized.cores), memory_bytes=sized.estimate.total),
        ports=dict(engine.ports),
        model_path=path,
        context_tokens=launch.context_tokens,
        parallel=launch.parallel,
    )
