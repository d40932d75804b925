"""How much memory one replica needs, from what is known about the model and how it is to be started.

What belongs here: the formula for llama.cpp on processors, and what stands in for facts that are missing.
What does not: how much there is.

    need = (weights + KV + compute + cache + overhead) x (1 + margin)

* weights: the bytes of the tensors, else of the file, else parameters x bits per weight of the file type.
  Repacking for the processor moves them, it does not double them: what was mapped is dropped by the kernel.
* KV: layers x key/value heads x head dimension x (key + value bytes) per token; with a latent cache (MLA)
  layers x (rank + rope dimension) x key bytes; nothing for encoders. Layers with a sliding window keep no
  more than the window and a step; the architecture tells which, and where it does not, all count whole.
* compute: per token of a physical step the hidden state, attention and feed-forward intermediates, and the
  mask over the context of a request; logits, of the last token of each request when text is written, of every
  token, and twice, when a decoder pools. Read off the buffers that the engine says it makes.
* cache: what the recipe keeps of old prompts, and the checkpoints of each request's sliding window.

Where the geometry is not known, KV per token is taken as 160 KiB + 48 KiB per billion of parameters, logits
as those of 262144 words, and a hidden state of 8192: above all dense models of the test vectors.
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
_HALF = 2
_BILLION = 10**9
_KV_BASE = 160 << 10
_KV_PER_BILLION = 48 << 10
_LARGEST_VOCABULARY = 262144
_LARGE_HIDDEN = 8192
_BITS_OF_UNKNOWN = 16.0


class Source(StrEnum):
    """What an estimate was worked out from."""

    GEOMETRY = "geometry"
    PARAMETERS = "parameters"


@dataclass(frozen=True, slots=True)
class Subject:
    """What is known about the model; what is unknown is None."""

    geometry: Geometry
    architecture: str | None = None
    parameters: int | None = None
    size_bytes: int | None = None
    #: of its file type
    bits_per_weight: float | None = None
    #: how many layers there are for each that sees the whole context
    full_attention_every: int = 1

    @property
    def encoder(self) -> bool:
        """Tell whether the model turns text into vectors only."""
        return self.architecture in ENCODERS


@dataclass(frozen=True, slots=True)
class Launch:
    """How it is to be started."""

    context_tokens: int
    parallel: int = 1
    micro_batch: int = 512
    #: an input becomes one vector or score, not a text
    pooled: bool = False
    key_bytes: float = 2
    value_bytes: float = 2
    cache_bytes: int = 0
    checkpoints: int = 0
    overhead_bytes: int = 0
    margin_percent: int = 0

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
    per_token = _kv_per_token(subject, launch)
    source = Source.GEOMETRY
    if per_token is None:
        per_token = _assumed_kv(_parameters(subject, bytes_of_weights))
        source = Source.PARAMETERS
    sliding = _sliding(subject)
    window = _window_tokens(subject.geometry, launch)
    per_request = per_token * ((1 - sliding) * launch.context_tokens + sliding * window)
    kv = math.ceil(per_request * launch.parallel)
    compute = _compute(subject, launch)
    kept = per_token * (sliding or 1) * window * launch.checkpoints * launch.parallel
    cache = launch.cache_bytes + (math.ceil(kept) if _known(subject.geometry.sliding_window) else 0)
    parts = bytes_of_weights + kv + compute + cache + launch.overhead_bytes
    total = math.ceil(parts * (100 + launch.margin_percent) / 100 / MIB) * MIB
    return Estimate(bytes_of_weights, kv, compute, cache, launch.overhead_bytes, total, source)


def _kv_per_token(subject: Subject, launch: Launch) -> float | None:
    """Return the bytes of all layers for one token, or None when the geometry is not known."""
    if subject.encoder:
        return 0.0
    geometry = subject.geometry
    layers = _known(geometry.layers)
    if layers is None:
        return None
    rank = _known(geometry.kv_lora_rank)
    if rank is not None:
        return layers * (rank + (_known(geometry.qk_rope_head_dim) or 0)) * launch.key_bytes
    heads, dimension = _heads(geometry), _head_dimension(geometry)
    if heads is None or dimension is None:
        return None
    return layers * heads * dimension * (launch.key_bytes + launch.value_bytes)


def _sliding(subject: Subject) -> float:
    """Return the part of the layers that keep a window only."""
    layers = _known(subject.geometry.layers)
    if layers is None or _known(subject.geometry.sliding_window) is None:
        return 0.0
    return 1 - layers // subject.full_attention_every / layers


def _window_tokens(geometry: Geometry, launch: Launch) -> int:
    """Return the tokens that a layer with a window keeps of one request."""
    kept = (_known(geometry.sliding_window) or 0) + launch.micro_batch
    return min(math.ceil(kept / CONTEXT_STEP) * CONTEXT_STEP, launch.context_tokens)


def _heads(geometry: Geometry) -> int | None:
    return _known(geometry.key_value_heads) or _known(geometry.attention_heads)


def _head_dimension(geometry: Geometry) -> int | None:
    known = _known(geometry.head_dim)
    hidden, heads = _known(geometry.hidden_size), _known(geometry.attention_heads)
    if known is None and hidden and heads:
        return math.ceil(hidden / heads)
    return known


def _compute(subject: Subject, launch: Launch) -> int:
    geometry = subject.geometry
    hidden = _known(geometry.hidden_size) or _LARGE_HIDDEN
    inner = (_known(geometry.intermediate_size) or 4 * hidden) * (_known(geometry.active_experts) or 1)
    step = launch.micro_batch * (2 * inner + 10 * hidden) * _FLOAT
    mask = launch.micro_batch * launch.context_tokens * _HALF
    return step + mask + _logits(subject, launch)


def _logits(subject: Subject, launch: Launch) -> int:
    if subject.encoder:
        return 0
    one = (_known(subject.geometry.vocabulary_size) or _LARGEST_VOCABULARY) * _FLOAT
    return 2 * launch.micro_batch * one if launch.pooled else launch.parallel * one


def _parameters(subject: Subject, bytes_of_weights: int) -> int:
    known = _known(subject.parameters)
    if known is not None:
        return known
    return math.ceil(bytes_of_weights * 8 / (subject.bits_per_weight or _BITS_OF_UNKNOWN))


def _assumed_kv(parameters: int) -> float:
    return _KV_BASE + _KV_PER_BILLION * parameters / _BILLION


def _known(number: int | None) -> int | None:
    return number if number is not None and number > 0 else None
