"""How much memory one replica needs, from what is known about the model and how it is to be started.

What belongs here: the formula for llama.cpp on processors, and what stands in for facts that are missing.
What does not: how much there is.

    need = (weights + KV + compute + cache + overhead) x (1 + margin)

* weights: the bytes of the tensors, else of the file, else parameters x bits per weight of the file type.
  Repacking for the processor moves them, it does not double them: what was mapped is dropped by the kernel.
* KV: layers x key/value heads x head dimension x (key + value bytes) per token; with a latent cache (MLA)
  layers x (rank + rope dimension) x key bytes; nothing for encoders. A sliding window counts as the whole
  context, since facts do not tell which layers have it.
* compute: one float per element of what a physical step holds at once: its logits, and for each token the
  hidden state, attention and feed-forward intermediates.
* cache: what the recipe keeps of old prompts, and the checkpoints of each request's sliding window.

Where the geometry is not known, KV per token is taken as 160 KiB + 48 KiB per billion of parameters, and
logits as those of 262144 words: above all models of the test vectors that have grouped heads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from modelkit.formats.gguf_tables import ENCODERS

if TYPE_CHECKING:
    from modelkit.facts import Geometry

MIB = 1 << 20
GIB = 1 << 30
#: llama.cpp makes a context longer until it is a multiple of this
CONTEXT_STEP = 256

_FLOAT = 4
_BILLION = 10**9
_KV_BASE = 160 << 10
_KV_PER_BILLION = 48 << 10
_LARGEST_VOCABULARY = 262144
_BITS_OF_UNKNOWN = 16.0


class Source(StrEnum):
    """What an estimate was worked out from."""

    GEOMETRY = "geometry"
    PARAMETERS = "parameters"


@dataclass(frozen=True, slots=True)
class Subject:
    """What is known about the model; what is unknown is None."""

    geometry: Geometry
    architecture: str | None
    parameters: int | None
    size_bytes: int | None
    #: of its file type
    bits_per_weight: float | None


@dataclass(frozen=True, slots=True)
class Launch:
    """How it is to be started."""

    context_tokens: int
    parallel: int
    micro_batch: int
    key_bytes: float
    value_bytes: float
    cache_bytes: int
    checkpoints: int
    overhead_bytes: int
    margin_percent: int

    @property
    def context_total(self) -> int:
        """Return the tokens of all requests together."""
        return self.context_tokens * self.parallel


@dataclass(frozen=True, slots=True)
class Estimate:
    """The need and its parts, in bytes."""

    weights: int
    kv: int
    compute: int
    cache: int
    overhead: int
    total: int
    source: Source


def weights(subject: Subject) -> int | None:
    """Return the bytes of the weights, or None when nothing about the model's size is known."""
    known = _known(subject.geometry.weight_bytes) or _known(subject.size_bytes)
    if known is not None:
        return known
    parameters = _known(subject.parameters)
    if parameters is None:
        return None
    return math.ceil(parameters * (subject.bits_per_weight or _BITS_OF_UNKNOWN) / 8)


def estimate(subject: Subject, launch: Launch) -> Estimate | None:
    """Return what a replica needs, or None when nothing about the model's size is known."""
    bytes_of_weights = weights(subject)
    if bytes_of_weights is None:
        return None
    per_token = kv_bytes_per_token(subject, launch.key_bytes, launch.value_bytes)
    source = Source.GEOMETRY
    if per_token is None:
        per_token = _assumed_kv(_parameters(subject, bytes_of_weights))
        source = Source.PARAMETERS
    kv = math.ceil(per_token * launch.context_total)
    compute = _compute(subject.geometry, launch)
    cache = launch.cache_bytes + _checkpoints(subject.geometry, launch, per_token)
    parts = bytes_of_weights + kv + compute + cache + launch.overhead_bytes
    total = math.ceil(parts * (100 + launch.margin_percent) / 100 / MIB) * MIB
    return Estimate(bytes_of_weights, kv, compute, cache, launch.overhead_bytes, total, source)


def kv_bytes_per_token(subject: Subject, key_bytes: float, value_bytes: float) -> float | None:
    """Return the bytes of all layers for one token, or None when the geometry is not known."""
    if subject.architecture in ENCODERS:
        return 0.0
    geometry = subject.geometry
    layers = _known(geometry.layers)
    if layers is None:
        return None
    rank = _known(geometry.kv_lora_rank)
    if rank is not None:
        return layers * (rank + (_known(geometry.qk_rope_head_dim) or 0)) * key_bytes
    heads, dimension = _heads(geometry), _head_dimension(geometry)
    if heads is None or dimension is None:
        return None
    return layers * heads * dimension * (key_bytes + value_bytes)


def _heads(geometry: Geometry) -> int | None:
    return _known(geometry.key_value_heads) or _known(geometry.attention_heads)


def _head_dimension(geometry: Geometry) -> int | None:
    known = _known(geometry.head_dim)
    hidden, heads = _known(geometry.hidden_size), _known(geometry.attention_heads)
    if known is None and hidden and heads:
        return math.ceil(hidden / heads)
    return known


def _compute(geometry: Geometry, launch: Launch) -> int:
    hidden = _known(geometry.hidden_size) or 0
    inner = _known(geometry.intermediate_size) or 4 * hidden
    vocabulary = _known(geometry.vocabulary_size) or _LARGEST_VOCABULARY
    return launch.micro_batch * (vocabulary + 2 * inner + 8 * hidden) * _FLOAT


def _checkpoints(geometry: Geometry, launch: Launch, per_token: float) -> int:
    window = _known(geometry.sliding_window)
    if window is None:
        return 0
    kept = min(window + launch.micro_batch, launch.context_tokens)
    return math.ceil(per_token * kept * launch.checkpoints * launch.parallel)


def _parameters(subject: Subject, bytes_of_weights: int) -> int:
    known = _known(subject.parameters)
    if known is not None:
        return known
    return math.ceil(bytes_of_weights * 8 / (subject.bits_per_weight or _BITS_OF_UNKNOWN))


def _assumed_kv(parameters: int) -> float:
    return _KV_BASE + _KV_PER_BILLION * parameters / _BILLION


def _known(number: int | None) -> int | None:
    return number if number is not None and number > 0 else None
