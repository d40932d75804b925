"""Which format a set of files is, and which of its files belong to the model.

Weights and what a runtime needs to load them are kept; what explains, tests or converts is dropped silently;
programs and archives inside a model stop the publication.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from modelkit.archives import is_hidden
from modelkit.errors import NotAModel

if TYPE_CHECKING:
    from collections.abc import Collection


class Format(StrEnum):
    """Formats that the catalogue holds."""

    SAFETENSORS = "Safetensors"
    GGUF = "GGUF"
    DIFFUSERS = "Diffusers"


class Action(StrEnum):
    """What becomes of a file."""

    KEEP = "keep"
    DROP = "drop"
    REJECT = "reject"


_REJECTED = (
    *(".so", ".dll", ".dylib", ".exe", ".jar", ".class", ".wasm"),
    *(".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".7z", ".rar"),
)
_DROPPED_DIRECTORIES = frozenset(
    [
        *(
            "assets",
            "benchmark",
            "benchmarks",
            "docs",
            "encoding",
            "eval",
            "evaluation",
            "example",
            "examples",
        ),
        *("figures", "images", "notebooks", "onnx", "openvino", "coreml", "tflite", "original", "metal"),
        *("scripts", "test", "tests"),
    ]
)
_KEPT_NAMES = frozenset(
    {"merges.txt", "spiece.model", "sentencepiece.bpe.model", "chat_template.jinja", "params"}
)
_COMPANIONS = (".json", ".yaml", ".yml", ".xml", ".jinja", ".model", ".txt")
_COMPANION_WORDS = (
    *("config", "tokenizer", "vocab", "merge", "special_tokens", "added_tokens", "preprocessor", "processor"),
    *("chat_template", "module", "pooling", "params", "dtype", "template", "index"),
)
#: what the file is a copy for is told by its name; everything unknown is dropped as well
_NOT_WEIGHTS = ("training_args.bin", "optimizer.bin", "scheduler.bin")


def detect_format(paths: Collection[str]) -> Format:
    """Return the one format that the files are.

    Raises:
        NotAModel: no format or more than one fits; the text says what is missing.
    """
    kept = [path for path in paths if not is_hidden(path) and not _in_dropped_directory(path)]
    tensors = any(path.lower().endswith(".safetensors") for path in kept)
    gguf = any(path.lower().endswith(".gguf") for path in kept)
    if "model_index.json" in kept:
        if tensors or any(path.lower().endswith(".bin") for path in kept):
            return Format.DIFFUSERS
        raise NotAModel("", "model_index.json has no weights beside it: no .safetensors or .bin file")
    if tensors and gguf:
        raise NotAModel("", "it holds .gguf and .safetensors files; send one of the two models")
    if tensors:
        if "config.json" in kept:
            return Format.SAFETENSORS
        raise NotAModel("", "config.json is missing beside the .safetensors files, at the top of the archive")
    if gguf:
        return Format.GGUF
    raise NotAModel(
        "", "no weights in it: no .gguf file, no config.json with .safetensors files, no model_index.json"
    )


def action(model_format: Format, path: str) -> Action:
    """Say what becomes of a file of a model of this format."""
    name = path.rpartition("/")[2].lower()
    rejected = name.endswith(_REJECTED)
    if rejected and model_format is Format.DIFFUSERS:
        return Action.REJECT
    if is_hidden(path) or _in_dropped_directory(path):
        return Action.DROP
    if rejected:
        return Action.REJECT
    if _is_weight(model_format, path) or _is_companion(name):
        return Action.KEEP
    return Action.DROP


def is_weight(path: str) -> bool:
    """Say whether a kept file holds weights, and so becomes a layer of its own."""
    return path.lower().endswith((".safetensors", ".gguf", ".bin"))


def _is_weight(model_format: Format, path: str) -> bool:
    name = path.lower()
    if model_format is Format.GGUF:
        return name.endswith(".gguf")
    if name.endswith(".safetensors"):
        return True
    return model_format is Format.DIFFUSERS and name.endswith(".bin") and not name.endswith(_NOT_WEIGHTS)


def _is_companion(name: str) -> bool:
    if name in _KEPT_NAMES:
        return True
    return name.endswith(_COMPANIONS) and any(word in name for word in _COMPANION_WORDS)


def _in_dropped_directory(path: str) -> bool:
    return any(part.lower() in _DROPPED_DIRECTORIES for part in path.split("/")[:-1])
