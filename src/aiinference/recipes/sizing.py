"""From a merged recipe and a model to numbers: context, requests at a time, batches, cores, memory.

What belongs here: what follows from the recipe's sizing, and the longest context that fits. What does not:
the formula of memory (``memory``), and the words of a refusal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiinference.recipes import memory
from aiinference.recipes.memory import CONTEXT_STEP, GIB, MIB, Estimate, Launch, Subject

if TYPE_CHECKING:
    from aiinference.recipes.catalogue import Sizing

#: what a model's pooling is called that has none
NO_POOLING = "none"
#: the one pooling for which an input may be taken in several steps
_IN_STEPS = "last"
#: the values of a recipe that does not say them
_CONTEXT = 4096
_LEAST_CONTEXT = 512
_BATCH = 2048
_MICRO_BATCH = 512
_HALF_PRECISION = 2.0


@dataclass(frozen=True, slots=True)
class Sized:
    """The numbers of one replica."""

    launch: Launch
    batch: int
    cores: int
    estimate: Estimate


def size(sizing: Sizing, subject: Subject, window: int | None, limit_bytes: int) -> Sized | None:
    """Return the numbers with the longest context that keeps the need within the limit, else with the least.

    Whether even that is too much is told by the estimate. None: nothing about the model's size is known.
    ``window`` is the context that the model was made for.
    """
    wanted = _rounded(min(sizing.context_tokens or _CONTEXT, window or sizing.context_tokens or _CONTEXT))
    least = min(_rounded(sizing.least_context_tokens or _LEAST_CONTEXT), wanted)
    context = wanted
    while True:
        found = _sized(sizing, subject, context)
        if found is None or found.estimate.total <= limit_bytes or context == least:
            return found
        context = max(_rounded(context // 2), least)


def pooling(sizing: Sizing, subject: Subject) -> str | None:
    """Return how the model's vectors are made: as it says itself, else as the recipe has it."""
    own = subject.geometry.pooling
    if own is not None and own != NO_POOLING:
        return own
    given = sizing.pooling
    if given is None:
        return None
    return given.encoder if subject.encoder else given.decoder


def _sized(sizing: Sizing, subject: Subject, context: int) -> Sized | None:
    batch, micro_batch = _batches(sizing, subject, context)
    launch = Launch(
        context_tokens=context,
        parallel=sizing.parallel or 1,
        micro_batch=micro_batch,
        pooled=bool(sizing.pooled),
        key_bytes=sizing.key_bytes or _HALF_PRECISION,
        value_bytes=sizing.value_bytes or _HALF_PRECISION,
        cache_bytes=(sizing.cache_mib or 0) * MIB,
        checkpoints=sizing.checkpoints or 0,
        overhead_bytes=(sizing.overhead_mib or 0) * MIB,
        margin_percent=sizing.margin_percent or 0,
    )
    need = memory.estimate(subject, launch)
    if need is None:
        return None
    return Sized(launch, batch, _cores(sizing, need.weights), need)


def _batches(sizing: Sizing, subject: Subject, context: int) -> tuple[int, int]:
    """Return the logical and the physical batch; of what is pooled the engine keeps whole logical ones."""
    micro_batch = min(sizing.micro_batch_tokens or _MICRO_BATCH, context)
    if not sizing.pooled:
        return min(max(sizing.batch_tokens or _BATCH, micro_batch), context), micro_batch
    step = micro_batch if pooling(sizing, subject) == _IN_STEPS else context
    return step, step


def _cores(sizing: Sizing, weights: int) -> int:
    for step in sizing.cores or ():
        if step.up_to_gib is None or weights <= step.up_to_gib * GIB:
            return step.cores
    return 1


def _rounded(tokens: int) -> int:
    return max(tokens // CONTEXT_STEP, 1) * CONTEXT_STEP
