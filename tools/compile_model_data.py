"""Compile what the header readers need to know about architectures into two small files.

    python tools/compile_model_data.py DIRECTORY

DIRECTORY holds ``hf-architectures.json`` and ``model-configs/config-field-aliases.json``: facts read from the
configuration classes and model registries of transformers, vLLM and text-embeddings-inference (Apache-2.0).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path("src/modelkit/data")
CANONICAL = (
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"),
    *("intermediate_size", "vocab_size", "max_position_embeddings", "sliding_window", "use_sliding_window"),
    *("tie_word_embeddings", "num_experts", "num_experts_per_token", "kv_lora_rank", "qk_rope_head_dim"),
)
#: generators that the registry of the source lists among embedders as well, where the later list won
GENERATORS = ("LlavaNextForConditionalGeneration", "Phi3VForCausalLM", "Qwen2VLForConditionalGeneration")
KEPT = ("text_config", "text_model_type", "flat_in_old_checkpoints", "head_dim", "kv_heads", "serving_fields")


def main(source: Path) -> None:
    """Write both files."""
    registry = json.loads((source / "hf-architectures.json").read_text())
    aliases = json.loads((source / "model-configs/config-field-aliases.json").read_text())
    TARGET.mkdir(exist_ok=True)
    _write("architectures.json", _architectures(registry))
    _write("config-fields.json", _fields(aliases))


def _write(name: str, document: Any) -> None:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    (TARGET / name).write_text(text + "\n")


def _architectures(registry: dict[str, Any]) -> dict[str, Any]:
    """Map each class to the number of its (endpoint types, features)."""
    sets: list[list[list[str]]] = []
    classes = {}
    for name, entry in registry["architectures"].items():
        endpoints = ["Chat", "ImageToText"] if name in GENERATORS else entry["endpoint_types"]
        pair = [endpoints, entry.get("features", [])]
        if pair not in sets:
            sets.append(pair)
        classes[name] = sets.index(pair)
    return {"classes": classes, "sets": sets}


def _fields(aliases: dict[str, Any]) -> dict[str, Any]:
    types = {
        name: _model_type(entry, aliases["model_types"]) for name, entry in aliases["model_types"].items()
    }
    generic = aliases["generic"]
    return {
        "candidates": {name: generic["candidates"][name] for name in CANONICAL},
        "textSections": generic["text_config_keys"],
        "types": types,
    }


def _model_type(entry: dict[str, Any], types: dict[str, Any]) -> dict[str, Any]:
    if "inherits" in entry:
        inherited = types[entry["inherits"]]
        merged = {**inherited, **entry}
        for part in ("fields", "defaults", "accepts"):
            merged[part] = {**inherited.get(part, {}), **entry.get(part, {})}
        entry = merged
    names: dict[str, list[str]] = {}
    for canonical in CANONICAL:
        field = entry.get("fields", {}).get(canonical)
        others = [
            entry.get(part, {}).get(canonical, [])
            for part in ("accepts", "hub_other_names", "v4_other_names")
        ]
        found = [field, *(one for other in others for one in ([other] if isinstance(other, str) else other))]
        unique = list(dict.fromkeys(one for one in found if isinstance(one, str)))
        if unique and unique != [canonical]:
            names[canonical] = unique
    compiled: dict[str, Any] = {key: entry[key] for key in KEPT if entry.get(key)}
    for target, part in (("defaults", "defaults"), ("oldDefaults", "v4_defaults")):
        chosen = {key: value for key, value in entry.get(part, {}).items() if key in CANONICAL}
        if chosen:
            compiled[target] = chosen
    if names:
        compiled["names"] = names
    if "use_sliding_window" in entry.get("fields", {}):
        compiled["windowSwitch"] = True
    return compiled


if __name__ == "__main__":
    main(Path(sys.argv[1]))
