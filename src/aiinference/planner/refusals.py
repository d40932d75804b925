"""Why an order cannot run, in words and numbers, and what would help.

What belongs here: the text of every refusal. What does not: when one is due (``plan``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiinference.planner.contract import Candidate, Refusal
from aiinference.planner.contract import RefusalReason as Reason
from aiinference.recipes import memory
from aiinference.recipes.memory import GIB, Subject

if TYPE_CHECKING:
    from aiinference.api.reasons import EndpointType, LaunchStrategy
    from aiinference.planner.contract import LaunchRequest
    from aiinference.planner.inventory import Accelerator, Inventory
    from aiinference.recipes.catalogue import Catalogue, Engine, Family
    from aiinference.recipes.sizing import Sized

#: candidates that one refusal names
SHOWN = 32


def no_accelerators() -> Refusal:
    """Return what is said where there is nothing to plan with."""
    return Refusal(
        reason=Reason.NO_CAPACITY,
        message="The cluster has no accelerators, and the class falls back to nothing.",
        next_step=(
            "Add a node with accelerators, or let an administrator set acceleratorPolicy.fallback of the "
            "class to CPU."
        ),
    )


def no_recipe_for_accelerators(request: LaunchRequest, inventory: Inventory) -> Refusal:
    """Return what is said of accelerators: no recipe of this version is for one.

    Devices that hold the model come further than those that do not, so their reason is the order's.
    """
    need = memory.weights(_subject(request))
    looked_at = [_candidate(one, need) for one in inventory.accelerators]
    looked_at.sort(key=lambda one: (one.reason == Reason.NO_CAPACITY, one.missing_gib or 0, one.name))
    best = looked_at[0]
    return Refusal(
        reason=best.reason,
        message=f"None of the cluster's {len(looked_at)} accelerators does: {best.name}: {best.message}",
        next_step=(
            "Use a class without acceleratorPolicy, whose orders run on processors, or ask for a smaller "
            "model."
        ),
        candidates=tuple(looked_at[:SHOWN]),
    )


def _candidate(accelerator: Accelerator, need: int | None) -> Candidate:
    available = accelerator.memory_bytes
    short = need is not None and available is not None and need > available
    if need is not None and available is not None and short:
        text = (
            f"{accelerator.product} has {_gib(available)} GiB, {_gib(need - available)} GiB less than the "
            "weights alone."
        )
    else:
        text = f"no recipe of this version is for {accelerator.product}."
    return Candidate(
        name=accelerator.name,
        reason=Reason.NO_CAPACITY if short else Reason.NO_COMPATIBLE_RUNTIME,
        message=text,
        need_gib=None if need is None else _gib(need),
        available_gib=None if available is None else _gib(available),
        missing_gib=_gib(need - available) if need is not None and available is not None and short else None,
    )


def no_recipe(request: LaunchRequest, endpoint: EndpointType, catalogue: Catalogue) -> Refusal:
    """Return what is said of a model that no recipe is for."""
    known = request.model.format
    formats = sorted({name for engine in catalogue.engines for name in engine.formats})
    what = f"a model of format {known}" if known else "a model whose format is not known"
    return Refusal(
        reason=Reason.NO_COMPATIBLE_RUNTIME,
        message=f"No recipe serves {what} as {endpoint} on processors.",
        next_step=f"Order a model of format {' or '.join(formats)}.",
    )


def unknown_size(request: LaunchRequest) -> Refusal:
    """Return what is said of a model about whose size nothing is known."""
    return Refusal(
        reason=Reason.NO_COMPATIBLE_RUNTIME,
        message=(
            f"The size of {request.model.name} is not known: neither the catalogue nor the order nor the "
            "model's name tells it, so that no need of memory can be worked out."
        ),
        next_step="Set spec.model.parameterCount of the order, for example 7B.",
    )


def quantization(found: str, engine: Engine) -> Refusal:
    """Return what is said of weights that the engine cannot read."""
    return Refusal(
        reason=Reason.QUANTIZATION_MISMATCH,
        message=f"{engine.name} {engine.version} cannot read weights of type {found}.",
        next_step=f"Order the model in one of the types {', '.join(engine.quantizations)}.",
    )


def no_image(engine: Engine) -> Refusal:
    """Return what is said when the module does not know the engine's image."""
    return Refusal(
        reason=Reason.NO_COMPATIBLE_RUNTIME,
        message=f"The module knows no image of {engine.name}.",
        next_step=f"An administrator adds the image {engine.image} to the module's settings.",
    )


def too_large(sized: Sized, family: Family, smaller: tuple[LaunchStrategy, Sized] | None) -> Refusal:
    """Return what is said of a need above the limit, with the change that would do, if there is one."""
    need, limit = sized.estimate, family.memory_limit_gib * GIB
    text = (
        f"One replica needs {_gib(need.total)} GiB = weights {_gib(need.weights)} + KV {_gib(need.kv)} + "
        f"compute {_gib(need.compute)} + caches {_gib(need.cache)} + overhead {_gib(need.overhead)} with a "
        f"margin, at {sized.launch.parallel} x {sized.launch.context_tokens} tokens; the limit on "
        f"{family.name} is {family.memory_limit_gib} GiB."
    )
    step = "Order a smaller model, or the same one in a type with fewer bits per weight."
    if smaller is not None:
        strategy, other = smaller
        step = f"Set launchStrategy {strategy}: it needs {_gib(other.estimate.total)} GiB. {step}"
    candidate = Candidate(
        name=family.name,
        device_class=family.device_class,
        reason=Reason.NO_CAPACITY,
        message=text,
        need_gib=_gib(need.total),
        available_gib=float(family.memory_limit_gib),
        missing_gib=_gib(need.total - limit),
    )
    return Refusal(reason=Reason.NO_CAPACITY, message=text, next_step=step, candidates=(candidate,))


def _subject(request: LaunchRequest) -> Subject:
    model = request.model
    return Subject(
        geometry=model.facts,
        architecture=model.architecture,
        parameters=model.parameter_count or request.parameter_count,
        size_bytes=model.size_bytes,
    )


def _gib(size: int) -> float:
    return round(size / GIB, 2)
