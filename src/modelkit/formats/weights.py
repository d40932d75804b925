"""What the tensors of a checkpoint add up to: bytes by type, parameters behind packed weights, shared copies.

Tensors are tallied as a header streams past, so a million of them cost no memory. What a packed
tensor stands for depends on the quantization; so the tally keeps sums per kind of tensor, and the answer is
worked out from those at the end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from math import prod
from typing import TYPE_CHECKING

from modelkit.formats.safetensors import byte_size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelkit.formats.quantization import Quantization
    from modelkit.formats.safetensors import Batch

#: companions of quantized weights: they carry no parameter of the model
_HELPERS = frozenset(
    [
        *("qzeros", "g_idx", "weight_scale", "weight_scale_inv", "weight_scale_2", "weight_scales"),
        *("weight_zero_point", "weight_g_idx", "weight_shape", "weight_global_scale", "weight_packed_shape"),
        *(
            "input_scale",
            "input_global_scale",
            "input_scale_inv",
            "output_scale",
            "k_scale",
            "v_scale",
            "q_scale",
        ),
        *("prob_scale", "SCB", "weight_format", "absmax", "nested_absmax", "quant_map", "nested_quant_map"),
        *("bitsandbytes__nf4", "bitsandbytes__fp4", "activation_scale"),
    ]
)
#: names that mean a helper only beside packed weights
_HELPERS_WHEN_PACKED = frozenset(
    ["scales", "biases", "scale", "zero", "zeros", "suh", "svh", "su", "sv", "_scales", "meta", "scale_inv"]
)
#: tensors that are computed from the configuration, no parameters
_BUFFERS = frozenset(["position_ids", "num_batches_tracked", "inv_freq", "masked_bias"])
_PACKED = frozenset(["qweight", "weight_packed", "W_q", "trellis", "_blocks"])
_OPAQUE = frozenset(["q_weight", "codes", "codebooks", "bitmask", "compressed", "indices", "_data", "tlut"])
#: names that are there only when weights are packed
_MARKS = _PACKED | _OPAQUE | {"absmax", "SCB", "weight_scale_2", "bitsandbytes__nf4", "bitsandbytes__fp4"}
_PLAIN = frozenset(["weight", "bias"])
_NAMED = _HELPERS | _HELPERS_WHEN_PACKED | _BUFFERS | _PACKED | _OPAQUE | _PLAIN

_HEADS = (
    *("lm_head.weight", "embed_out.weight", "proj_out.weight", "cls.predictions.decoder.weight"),
    *("lm_head.decoder.weight", "predictions.decoder.weight", "generator_lm_head.weight", "decoder.weight"),
    *("vocab_projector.weight", "lm_head.linear.weight", "output_projection.weight"),
)
_EMBEDDINGS = (
    *(
        "embed_tokens.weight",
        "wte.weight",
        "word_embeddings.weight",
        "embed_in.weight",
        "tok_embeddings.weight",
    ),
    *("shared.weight", "embeddings.weight", "embedding.weight", "embeddings.tok_embeddings.weight"),
)
_VOCABULARIES = _HEADS + _EMBEDDINGS
_MOST_VOCABULARIES = 16
_MATRIX = 2
_FUSED_EXPERTS = 3
_TRELLIS_TILE = 256
#: stands in the names of tensors of one expert of many
_ROUTED = ".experts."


#: tensors that count alike: type, last part of the name where it means something, in routed experts or not
Kind = tuple[str, str, bool]


class Weights:
    """Sums over the tensors of one model."""

    def __init__(self, experts: int | None = None) -> None:
        self._experts = experts or 0
        self._elements: defaultdict[Kind, int] = defaultdict(int)
        self._heads: list[tuple[str, tuple[int, ...]]] = []
        self._embeddings: list[tuple[str, tuple[int, ...]]] = []
        self.dtype_bytes: defaultdict[str, int] = defaultdict(int)
        self.tensor_count = 0

    def add(self, batches: Iterable[Batch]) -> None:
        """Count the tensors of a file."""
        for batch in batches:
            for (dtype, shape), names in batch.items():
                self.tensor_count += len(names)
                self.dtype_bytes[dtype] += len(names) * (byte_size(dtype, shape) or 0)
                fused = len(shape) == _FUSED_EXPERTS and shape[0] == self._experts > 1
                routed = names if fused else [name for name in names if _ROUTED in name]
                self._count(dtype, shape, routed, routed=True)
                if len(routed) < len(names):
                    plain = [name for name in names if _ROUTED not in name] if routed else names
                    self._count(dtype, shape, plain, routed=False)

    def _count(self, dtype: str, shape: tuple[int, ...], names: list[str], *, routed: bool) -> None:
        """Count tensors of one form."""
        if not routed and len(shape) == _MATRIX:
            for name in names:
                if name.endswith(_VOCABULARIES):
                    self._note_vocabulary(name, shape)
        for last, count in Counter([name.rpartition(".")[2] for name in names]).items():
            elements, kind = prod(shape), last
            if last not in _NAMED:
                kind = "_" + last.rpartition("_")[2] if last.endswith(("_blocks", "_scales")) else ""
            elif last == "trellis" and len(shape) == _FUSED_EXPERTS:
                elements = shape[0] * shape[1] * _TRELLIS_TILE  # its real number
            self._elements[dtype, kind, routed] += count * elements

    def _note_vocabulary(self, name: str, shape: tuple[int, ...]) -> None:
        found = self._heads if name.endswith(_HEADS) else self._embeddings
        if len(found) < _MOST_VOCABULARIES:
            found.append((name, shape))

    @property
    def has_head(self) -> bool:
        """Say whether an output projection is stored."""
        return bool(self._heads)

    @property
    def vocabulary(self) -> int | None:
        """Rows of the largest input embedding, nothing when none is stored."""
        return max((shape[0] for _, shape in self._embeddings), default=0) or None

    @property
    def weight_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(self.dtype_bytes.values())

    def packed(self) -> bool:
        """Say whether any tensor holds weights that are packed or quantized by their form."""
        return any(name in _MARKS for _, name, _ in self._elements)

    def parameters(self, quantization: Quantization, *, tied: bool | None) -> tuple[int, int] | None:
        """Return parameters in all and those in routed experts; nothing when packing hides them."""
        if quantization.hides_shapes:
            return None
        packed = self.packed() or quantization.packs_plain_weights
        total = routed = 0
        for (dtype, name, in_experts), elements in self._elements.items():
            if name in _HELPERS or name in _BUFFERS or (packed and name in _HELPERS_WHEN_PACKED):
                continue
            values = _values(dtype, name, elements, quantization)
            if values is None:
                return None
            total += values
            routed += values if in_experts else 0
        return total - self._copies(tied=tied), routed

    def _copies(self, *, tied: bool | None) -> int:
        """Return the elements of embeddings that are stored a second time."""
        copies = 0
        shared = {shape for name, shape in self._embeddings if name.endswith("shared.weight")}
        for name, shape in self._embeddings:
            if shape in shared and not name.endswith("shared.weight"):
                copies += shape[0] * shape[1]
        if tied:
            known = {shape for _, shape in self._embeddings}
            copies += sum(shape[0] * shape[1] for _, shape in self._heads if shape in known)
        return copies


def _values(dtype: str, name: str, elements: int, quantization: Quantization) -> int | None:
    """Return how many parameters the elements stand for."""
    if name in _OPAQUE:
        return None if quantization.method else elements
    bits = quantization.bits
    words = name == "weight" and dtype == "U32" and quantization.method == "mlx"
    if words or name in {"qweight", "weight_packed", "W_q"}:
        width = {"I32": 32, "U32": 32, "U8": 8, "I8": 8, "I16": 16, "I64": 64}.get(dtype)
        if name == "weight_packed" and dtype == "U8":
            bits = 4
        return elements * width // bits if width and bits else None
    if name == "_blocks" and dtype == "U8":
        return 2 * elements
    if name == "weight" and dtype in {"U8", "I8"}:
        return elements * quantization.values_per_byte
    return elements
