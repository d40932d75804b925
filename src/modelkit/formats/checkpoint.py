"""A Safetensors checkpoint: which of its files are the weights, and the facts that all its files give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelkit.errors import Damaged, NotAModel
from modelkit.facts import Confidence
from modelkit.formats import companions, endpoints, quantization, safetensors
from modelkit.formats.config import Configuration, parse
from modelkit.formats.weights import Weights
from modelkit.reading import read_small

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelkit.facts import FactSheet
    from modelkit.formats.quantization import Quantization
    from modelkit.reading import Files

CONFIG = "config.json"
INDEX_SUFFIX = ".safetensors.index.json"
CONFIG_LIMIT = 8 << 20
#: files that say how the weights were quantized, where ``config.json`` does not
_QUANTIZATION_FILES = (
    "hf_quant_config.json",
    "quantize_config.json",
    "quant_config.json",
    "quantization_config.json",
)
#: copies in another vendor's layout, adapters and heads that are not the model
_NOT_THE_MODEL = ("consolidated", "adapter_model", "optimizer", "training_args")


def learn(sheet: FactSheet, files: Files) -> str | None:
    """Learn everything a checkpoint says; return the path of the file that holds the chat template.

    Raises:
        NotAModel: a part is damaged or missing; the text says which.
    """
    config = _configuration(files)
    known = Configuration(config)
    architectures = config.get("architectures")
    architecture = architectures[0] if isinstance(architectures, list) and architectures else None
    if isinstance(architecture, str):
        sheet.exact(architecture=architecture)
        sheet.derived(family=endpoints.family_of(architecture))
    if known.model_type is not None:
        sheet.exact(family=known.model_type.lower())
    known.learn(sheet)
    weights = Weights(sheet.value("experts"))
    add_files(weights, files, weight_files(files))
    _learn_weights(sheet, weights, _quantization(config, files), known)
    template_path = companions.learn(sheet, files)
    if isinstance(architecture, str):
        endpoints.learn(sheet, architecture, config, files)
    return template_path


def learn_lone(sheet: FactSheet, files: Files) -> None:
    """Learn what Safetensors files say without a configuration beside them."""
    weights = Weights()
    add_files(weights, files, list(files))
    _learn_weights(sheet, weights, quantization.NONE, None)


def _configuration(files: Files) -> dict[str, Any]:
    data = read_small(files, CONFIG, CONFIG_LIMIT)
    if data is None:
        raise NotAModel(CONFIG, "is missing or too large beside the .safetensors files")
    return parse(data, CONFIG)


def weight_files(files: Files) -> list[str]:
    """Return the files that are the weights, each tensor in one of them: by the index, else by name."""
    root = sorted(path for path in files if "/" not in path)
    for path in root:
        if path.endswith(INDEX_SUFFIX) and not path.startswith(_NOT_THE_MODEL):
            return _indexed(files, path)
    tensors = [path for path in root if path.endswith(".safetensors") and not path.startswith(_NOT_THE_MODEL)]
    if "model.safetensors" in tensors:
        return ["model.safetensors"]
    sets: dict[tuple[str, int], list[str]] = {}
    for path in tensors:
        shard = safetensors.shard_of(path)
        if shard is not None:
            sets.setdefault((shard[0], shard[2]), []).append(path)
    if sets:
        (stem, count), found = max(sets.items(), key=lambda one: len(one[1]))
        check_complete(found, stem, count)
        return found
    return tensors or sorted(path for path in files if path.endswith(".safetensors"))


def check_complete(found: Iterable[str], stem: str, count: int) -> None:
    """Refuse a set of numbered files with one missing."""
    numbers = {shard[1] for shard in map(safetensors.shard_of, found) if shard}
    missing = next((number for number in range(1, count + 1) if number not in numbers), None)
    if missing is not None:
        raise Damaged(f"{stem}-{missing:05d}-of-{count:05d}.safetensors", "is missing from the set")


def _indexed(files: Files, path: str) -> list[str]:
    reader = files[path]()
    names = safetensors.read_index(reader.read_at(0, min(reader.size, safetensors.INDEX_LIMIT + 1)), path)
    found = sorted(set(names.values()))
    if not found:
        raise Damaged(path, "names no weights")
    for name in found:
        if name not in files:
            raise Damaged(path, f"names the file {name[:100]!a}, which is missing")
    return found


def add_files(weights: Weights, files: Files, paths: Iterable[str]) -> None:
    """Tally the tensors of the files."""
    for path in paths:
        weights.add(safetensors.tensors(files[path](), path))
    if not weights.tensor_count:
        raise NotAModel(next(iter(paths), ""), "holds no tensors")


def _quantization(config: dict[str, Any], files: Files) -> Quantization:
    found = quantization.from_config(config)
    for path in _QUANTIZATION_FILES if found == quantization.NONE else ():
        data = read_small(files, path, CONFIG_LIMIT)
        if data is not None:
            section = parse(data, path)
            method = {"quant_method": "gptq"} if path == "quantize_config.json" else {}
            return quantization.from_config({"quantization_config": {**method, **section}})
    return found


def _learn_weights(
    sheet: FactSheet, weights: Weights, method: Quantization, known: Configuration | None
) -> None:
    sheet.exact(
        weight_bytes=weights.weight_bytes or None,
        tensor_count=weights.tensor_count,
        dtype_bytes=dict(sorted(weights.dtype_bytes.items())),
    )
    tied, stated = known.tied() if known else (None, False)
    if weights.vocabulary:
        if tied is None and str(sheet.value("architecture")).endswith(("ForCausalLM", "LMHeadModel")):
            tied = not weights.has_head
        (sheet.exact if stated else sheet.derived)(tied_embeddings=tied)
        if not sheet.is_exact("vocabulary_size"):
            sheet.forget("vocabulary_size")
            sheet.derived(vocabulary_size=weights.vocabulary)
    packed = weights.packed() or method.packs_plain_weights
    counted = weights.parameters(method, tied=tied)
    if counted is not None:
        total, routed = counted
        sheet.learn("parameter_count", total or None, Confidence.DERIVED if packed else Confidence.EXACT)
        experts, active = sheet.value("experts"), sheet.value("active_experts")
        if routed and experts and active and active <= experts:
            sheet.derived(active_parameter_count=total - routed + routed * active // experts)
    if method.method is not None:
        sheet.exact(quantization=method.word)
    elif not packed:
        sheet.derived(quantization=quantization.from_types(weights.dtype_bytes))
