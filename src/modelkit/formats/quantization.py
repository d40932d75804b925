"""Quantization of a checkpoint, in the words that names of models use for it.

The configuration says the method; without one the types of the tensors say how wide the weights are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_INT_WORDS = {4: "int4", 8: "int8"}
#: methods whose packing is not told by the tensors' shapes
_UNKNOWN_PACKING = frozenset(["aqlm", "vptq", "higgs", "spqr", "quip", "exl2", "quanto", "torchao"])


class Quantization(NamedTuple):
    """What is known of a checkpoint's quantization."""

    word: str | None = None
    method: str | None = None
    bits: int | None = None
    #: weights in one byte of a plain ``weight`` tensor of type U8 or I8
    values_per_byte: int = 1
    packs_plain_weights: bool = False

    @property
    def hides_shapes(self) -> bool:
        """Say whether the shapes of the tensors tell nothing about the number of parameters."""
        return self.method in _UNKNOWN_PACKING


NONE = Quantization()
_Reader = Callable[[Mapping[str, Any], Mapping[str, Any]], Quantization]


def from_config(config: Mapping[str, Any]) -> Quantization:
    """Return what ``config.json`` (or a quantization file beside it) says."""
    section = _section(config)
    if section is None:
        return _mlx(config)
    method = str(section.get("quant_method") or "").lower().replace("_", "-")
    reader = _READERS.get(method)
    if reader is not None:
        return reader(section, config)._replace(method=method)
    bits = _integer(section, "bits", "w_bit", "nbits", "weight_bits")
    if section.get("quant_algo") or section.get("producer"):
        return _modelopt(section, config)._replace(method="modelopt")
    return Quantization(method=method or "unknown", bits=bits)


def _section(config: Mapping[str, Any]) -> dict[str, Any] | None:
    for holder in (config, *(config.get(key) for key in ("text_config", "llm_config", "language_config"))):
        if isinstance(holder, dict):
            for key in ("quantization_config", "compression_config"):
                if isinstance(holder.get(key), dict):
                    return dict(holder[key])
    return None


def _mlx(config: Mapping[str, Any]) -> Quantization:
    section = config.get("quantization")
    bits = _integer(section, "bits") if isinstance(section, dict) else None
    if bits is None:
        return NONE
    return Quantization(word=f"mlx{bits}", method="mlx", bits=bits, packs_plain_weights=True)


def _awq(section: Mapping[str, Any], _: Mapping[str, Any]) -> Quantization:
    bits = _integer(section, "bits", "w_bit") or 4
    return Quantization(word={4: "awq4", 8: "int8"}.get(bits), bits=bits)


def _gptq(section: Mapping[str, Any], _: Mapping[str, Any]) -> Quantization:
    bits = _integer(section, "bits")
    return Quantization(word=_INT_WORDS.get(bits or 0), bits=bits)


def _bitsandbytes(section: Mapping[str, Any], _: Mapping[str, Any]) -> Quantization:
    if section.get("load_in_4bit") or section.get("_load_in_4bit"):
        skipped = section.get("llm_int8_skip_modules") or []
        chosen = isinstance(skipped, list) and any(".layers." in f".{module}" for module in skipped)
        return Quantization(
            "bnb4-dynamic" if chosen else "bnb4", bits=4, values_per_byte=2, packs_plain_weights=True
        )
    return Quantization(word="int8", bits=8, packs_plain_weights=True)


def _fp8(_: Mapping[str, Any], config: Mapping[str, Any]) -> Quantization:
    if str(config.get("expert_dtype") or "").lower() in {"fp4", "mxfp4", "nvfp4"}:
        return Quantization(word="fp8+fp4", values_per_byte=2, packs_plain_weights=True)
    return Quantization(word="fp8", bits=8)


def _mxfp4(_: Mapping[str, Any], __: Mapping[str, Any]) -> Quantization:
    return Quantization(word="mxfp4", bits=4, values_per_byte=2, packs_plain_weights=True)


def _modelopt(section: Mapping[str, Any], _: Mapping[str, Any]) -> Quantization:
    inner = section.get("quantization")
    algorithm = str(
        section.get("quant_algo") or (inner.get("quant_algo") if isinstance(inner, dict) else "")
    ).upper()
    if algorithm == "MIXED_PRECISION" or (algorithm == "NVFP4" and section.get("quantized_layers")):
        return Quantization(word="nvfp4-mixed", values_per_byte=2, packs_plain_weights=True)
    if "NVFP4" in algorithm or algorithm == "W4A16_NVFP4" or not algorithm:
        return Quantization(word="nvfp4", bits=4, values_per_byte=2, packs_plain_weights=True)
    if "MXFP8" in algorithm:
        return Quantization(word="mxfp8", bits=8)
    if "FP8" in algorithm:
        return Quantization(word="fp8", bits=8)
    if "W4" in algorithm:
        return Quantization(word="awq4" if "AWQ" in algorithm else "int4", bits=4, values_per_byte=2)
    return Quantization(word="int8" if "INT8" in algorithm or "W8A8" in algorithm else None)


def _compressed(section: Mapping[str, Any], _: Mapping[str, Any]) -> Quantization:
    """Read compressed-tensors: groups of layers, each with a scheme for its weights."""
    form = str(section.get("format") or "").lower()
    words: set[str] = set()
    widths: set[int] = set()
    groups = section.get("config_groups")
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        if not isinstance(weights, dict):
            continue
        bits = _integer(weights, "num_bits")
        own = str(group.get("format") or form).lower()
        words.add(
            _compressed_word(own, str(weights.get("type") or "int"), bits, _integer(weights, "group_size"))
        )
        widths.add(bits or 0)
    words.discard("")
    if len(words) > 1:
        mixed = "nvfp4-mixed" if "nvfp4" in words else "mixed"
        return Quantization(word=mixed, bits=widths.pop() if len(widths) == 1 else None)
    return Quantization(word=words.pop() if words else None, bits=widths.pop() if len(widths) == 1 else None)


def _compressed_word(form: str, kind: str, bits: int | None, group: int | None) -> str:
    if kind == "float" and bits == 4:  # noqa: PLR2004
        return "mxfp4" if "mxfp4" in form or group == 32 else "nvfp4"  # noqa: PLR2004 - block sizes of the formats
    if kind == "float":
        return ("mxfp8" if "mxfp8" in form else "fp8") if bits == 8 else ""  # noqa: PLR2004
    return _INT_WORDS.get(bits or 0, "")


def _quark(section: Mapping[str, Any], _: Mapping[str, Any]) -> Quantization:
    scheme = section.get("global_quant_config")
    weight = scheme.get("weight") if isinstance(scheme, dict) else None
    dtype = str(weight.get("dtype") if isinstance(weight, dict) else "").lower()
    if dtype.startswith("fp4"):
        return Quantization(word="mxfp4", bits=4, values_per_byte=2, packs_plain_weights=True)
    if dtype.startswith("fp8"):
        return Quantization(word="fp8", bits=8)
    if dtype.startswith("int8"):
        return Quantization(word="int8", bits=8)
    return Quantization(word="int4" if dtype.startswith(("int4", "uint4")) else None)


def _bits_of(word: str, bits: int, values: int = 1) -> _Reader:
    def read(_: Mapping[str, Any], __: Mapping[str, Any]) -> Quantization:
        return Quantization(word=word, bits=bits, values_per_byte=values, packs_plain_weights=values > 1)

    return read


def _hqq(section: Mapping[str, Any], _: Mapping[str, Any]) -> Quantization:
    inner = section.get("quant_config")
    weights = inner.get("weight_quant_params") if isinstance(inner, dict) else None
    bits = _integer(weights if isinstance(weights, dict) else section, "nbits", "bits")
    return Quantization(word=_INT_WORDS.get(bits or 0), bits=bits)


def _torchao(section: Mapping[str, Any], _: Mapping[str, Any]) -> Quantization:
    text = str(section.get("quant_type") or "").lower()
    for mark, word in (
        ("int4", "int4"),
        ("float8", "fp8"),
        ("int8", "int8"),
        ("nvfp4", "nvfp4"),
        ("mxfp4", "mxfp4"),
    ):
        if mark in text:
            return Quantization(word=word)
    return NONE


_READERS: dict[str, _Reader] = {
    "awq": _awq,
    "gptq": _gptq,
    "gptqmodel": _gptq,
    "auto-round": _gptq,
    "intel/auto-round": _gptq,
    "inc": _gptq,
    "bitsandbytes": _bitsandbytes,
    "fp8": _fp8,
    "fbgemm-fp8": _bits_of("fp8", 8),
    "finegrained-fp8": _fp8,
    "deepspeedfp": _bits_of("fp8", 8),
    "compressed-tensors": _compressed,
    "mxfp4": _mxfp4,
    "gpt-oss-mxfp4": _mxfp4,
    "mxfp8": _bits_of("mxfp8", 8),
    "modelopt": _modelopt,
    "modelopt-fp4": _modelopt,
    "modelopt-mixed": _modelopt,
    "nvfp4": _bits_of("nvfp4", 4, 2),
    "quark": _quark,
    "hqq": _hqq,
    "torchao": _torchao,
    "eetq": _bits_of("int8", 8),
    "bitnet": _bits_of("1.58bit", 2, 4),
    "exl2": _bits_of("exl2", 0),
    "exl3": _bits_of("exl3", 0),
}


def from_types(dtype_bytes: Mapping[str, int]) -> str | None:
    """Return the word for the type that most bytes of an unquantized checkpoint have."""
    if not dtype_bytes:
        return None
    most = max(dtype_bytes, key=lambda dtype: dtype_bytes[dtype])
    if most.startswith(("F8_E4M3", "F8_E5M2")):
        return "fp8"
    return {"BF16": "16bit", "F16": "16bit", "F32": "32bit-on-disk"}.get(most)


def _integer(section: Mapping[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = section.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 64:  # noqa: PLR2004 - bits
            return value
    return None
