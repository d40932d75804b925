"""``config.json`` of a checkpoint: geometry under the many names that architectures give it.

Two tables (``modelkit/data``) say how each model type names its fields, what a field that is left out stands
for, and where a model of several parts keeps its language part.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from modelkit.errors import Damaged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from modelkit.facts import FactSheet

LIMIT = 8 << 20
_DATA = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data")  # noqa: PTH118, PTH120 - start-up time
#: names of the context length that are tried after the type's own
_CONTEXT = (
    *("max_position_embeddings", "model_max_length", "max_sequence_length", "max_seq_len", "seq_length"),
    *("n_positions", "n_ctx", "max_target_positions", "seq_len", "max_seq_length"),
)
_LARGEST = 1 << 40
#: types whose feed-forward layer is four times as wide as the rest unless the configuration says otherwise
_FOUR_TIMES = frozenset(["gpt2", "gptj", "gpt_neo", "codegen", "gpt_bigcode", "bloom", "falcon", "mpt"])
_EXPERTS_ELSEWHERE = {"dbrx": ("ffn_config.moe_num_experts", "ffn_config.moe_top_k")}
_FIELDS = {
    "layers": "num_hidden_layers",
    "hidden_size": "hidden_size",
    "intermediate_size": "intermediate_size",
    "attention_heads": "num_attention_heads",
    "vocabulary_size": "vocab_size",
    "kv_lora_rank": "kv_lora_rank",
    "qk_rope_head_dim": "qk_rope_head_dim",
}


class _Tables(msgspec.Struct, frozen=True, rename="camel"):
    candidates: dict[str, list[str]]
    text_sections: list[str]
    types: dict[str, msgspec.Raw]


class TypeEntry(msgspec.Struct, frozen=True):
    """What is known of one model type."""

    names: dict[str, list[str]] = {}
    defaults: dict[str, Any] = {}
    old_defaults: dict[str, Any] = msgspec.field(default_factory=dict, name="oldDefaults")
    text_config: str | None = None
    text_model_type: str | None = None
    flat_in_old_checkpoints: bool = False
    head_dim: dict[str, Any] | None = None
    kv_heads: dict[str, Any] | None = None
    serving_fields: dict[str, str] = {}
    window_switch: bool = msgspec.field(default=False, name="windowSwitch")


def parse(data: bytes, where: str) -> dict[str, Any]:
    """Return a configuration file's object.

    Raises:
        Damaged: it is no JSON object or is larger than any configuration.
    """
    if len(data) > LIMIT:
        raise Damaged(where, f"{len(data)} bytes are too many for a configuration")
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Damaged(where, f"no JSON object: {error}") from error


def table(name: str) -> bytes:
    """Return the bytes of a data file."""
    with open(os.path.join(_DATA, name), "rb") as file:  # noqa: PTH118, PTH123 - start-up time
        return file.read()


@cache
def _tables() -> _Tables:
    return msgspec.json.decode(table("config-fields.json"), type=_Tables)


def _entry(model_type: Any) -> TypeEntry | None:
    raw = _tables().types.get(model_type) if isinstance(model_type, str) else None
    return msgspec.json.decode(raw, type=TypeEntry) if raw is not None else None


def _at(holder: Any, path: str) -> Any:
    """Return the value at a dotted path, or ``None``."""
    for key in path.split("."):
        holder = holder.get(key) if isinstance(holder, dict) else None
    return holder


class Configuration:
    """One ``config.json``, read with what is known of its model type."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        named = config.get("model_type")
        self.model_type = named if isinstance(named, str) else None
        self._top = _entry(self.model_type)
        section, path = self._text_section()
        self.text: Mapping[str, Any] = section if section is not None else config
        if section is None:
            self._known = self._top
        else:
            text_type = self._top.text_model_type if self._top and path == self._top.text_config else None
            self._known = _entry(section.get("model_type")) or _entry(text_type)
        flat = self._known is None or (self._top is not None and self._top.flat_in_old_checkpoints)
        if section is None and self._top is not None and self._top.text_model_type and flat:
            self._known = _entry(self._top.text_model_type) or self._top
        self._holders = [self.text] if section is None or not flat else [self.text, config]

    def _text_section(self) -> tuple[dict[str, Any] | None, str | None]:
        known = self._top.text_config if self._top else None
        if self._top is not None and known is None and self._top.defaults.get("hidden_size") is not None:
            return None, None
        for path in ([known] if known else []) + _tables().text_sections:
            section = _at(self.config, path)
            if isinstance(section, dict) and section:
                return section, path
        return None, None

    def _names(self, canonical: str) -> Iterator[str]:
        if self._known is not None:
            serving = self._known.serving_fields.get(canonical)
            if serving:
                yield serving
            yield from self._known.names.get(canonical, [canonical])
        else:
            yield from _tables().candidates[canonical]

    def _find(self, names: Iterator[str] | list[str]) -> tuple[bool, Any]:
        """Return whether one of the names is there, and its value: of the first one, be it null."""
        for name in names:
            for holder in self._holders:
                value = _at(holder, name)
                if value is not None or name in holder:
                    return True, value
        return False, None

    def number(self, canonical: str) -> tuple[int | None, bool]:
        """Return a field above zero, and whether it was stated; what is left out is the type's default."""
        stated, value = self._find(self._names(canonical))
        if not stated:
            value = self._default(canonical)
        return _whole(value), stated

    def _default(self, canonical: str) -> Any:
        if self._known is None:
            return None
        old = str(self.config.get("transformers_version") or "").startswith("4.")
        if old and canonical in self._known.old_defaults:
            return self._known.old_defaults[canonical]
        return self._known.defaults.get(canonical)

    def flag(self, name: str, default: Any = None) -> Any:
        """Return a yes or no of the language part, or of the whole."""
        for holder in (self.text, self.config):
            if isinstance(holder.get(name), bool):
                return holder[name]
        return default

    def tied(self) -> tuple[bool | None, bool]:
        """Return whether input and output embeddings are one, and whether that was stated."""
        for holder in (self.config, self.text):
            value = holder.get("tie_word_embeddings")
            if isinstance(value, bool):
                return value, True
        for entry in (self._top, self._known):
            if entry is not None and isinstance(entry.defaults.get("tie_word_embeddings"), bool):
                return entry.defaults["tie_word_embeddings"], False
        return None, False

    def learn(self, sheet: FactSheet) -> None:
        """Learn the geometry."""
        for fact, canonical in _FIELDS.items():
            value, stated = self.number(canonical)
            (sheet.exact if stated else sheet.derived)(**{fact: value})
        if self.model_type in _FOUR_TIMES and sheet.value("hidden_size"):
            sheet.derived(intermediate_size=4 * sheet.value("hidden_size"))
        self._learn_heads(sheet)
        self._learn_experts(sheet)
        self._learn_context(sheet)

    def _learn_heads(self, sheet: FactSheet) -> None:
        heads, hidden = sheet.value("attention_heads"), sheet.value("hidden_size")
        rule = (self._known.kv_heads if self._known else None) or {}
        if str(rule.get("rule")).startswith("none"):
            sheet.forget("attention_heads")
            return
        key_value, stated = self._key_value_heads(rule, heads)
        (sheet.exact if stated else sheet.derived)(key_value_heads=key_value)
        latent, rope = sheet.value("kv_lora_rank"), sheet.value("qk_rope_head_dim")
        if latent and rope:
            sheet.derived(head_dim=latent + rope)
            return
        size, stated = self.number("head_dim")
        own = (self._known.head_dim if self._known else None) or {}
        if size is None:
            absent = None if stated else own.get("when_absent")
            size, stated = (absent if isinstance(absent, int) else None), False
        if size is None and heads and hidden and hidden % heads == 0:
            size = hidden // heads
        (sheet.exact if stated else sheet.derived)(head_dim=size)

    def _key_value_heads(self, rule: Mapping[str, Any], heads: int | None) -> tuple[int | None, bool]:
        text = str(rule.get("rule") or "")
        if "multi_query" in text:
            grouped = (
                self.flag("new_decoder_architecture")
                if "new_decoder" in text
                else self.flag("multi_query_attention")
            )
            if grouped:
                value, stated = self.number("num_key_value_heads")
                return (value, stated) if value else (heads, False)
            return (1 if self.flag("multi_query", "multi_query_attention" not in text) else heads), False
        if text:
            return heads, False
        field = str(rule.get("field") or "")
        nested = _whole(_at(self.text, field)) if "." in field else None
        if nested is not None:
            return nested, True
        value, stated = self.number("num_key_value_heads")
        if value is not None and stated:
            return value, True
        absent = None if stated else rule.get("when_absent")
        return (absent if isinstance(absent, int) else heads), False

    def _learn_experts(self, sheet: FactSheet) -> None:
        elsewhere = _EXPERTS_ELSEWHERE.get(str(self.model_type))
        if elsewhere:
            sheet.exact(
                experts=_whole(_at(self.text, elsewhere[0])),
                active_experts=_whole(_at(self.text, elsewhere[1])),
            )
            return
        experts, stated = self.number("num_experts")
        if experts is None:
            return
        (sheet.exact if stated else sheet.derived)(experts=experts)
        active, stated = self.number("num_experts_per_token")
        (sheet.exact if stated else sheet.derived)(active_experts=active)

    def _learn_context(self, sheet: FactSheet) -> None:
        stated, value = self._find([*self._names("max_position_embeddings"), *_CONTEXT])
        if _whole(value) is None:
            stated, value = False, self._default("max_position_embeddings")
        (sheet.exact if stated else sheet.derived)(context_window_tokens=_whole(value))
        if self.flag("use_sliding_window", not (self._known and self._known.window_switch)):
            window, stated = self.number("sliding_window")
            (sheet.exact if stated else sheet.derived)(sliding_window=window)


def _whole(value: Any) -> int | None:
    """Return a number above zero; of a list, the one that all its entries above zero share."""
    if isinstance(value, list):
        items = {one for one in value if isinstance(one, int) and one}
        value = items.pop() if len(items) == 1 else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _LARGEST else None
