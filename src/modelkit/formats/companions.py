"""Small files beside the weights: chat template, tokenizer, pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from modelkit.facts import TEMPLATE_LIMIT
from modelkit.formats.templates import template_features
from modelkit.reading import read_small

if TYPE_CHECKING:
    from modelkit.facts import FactSheet
    from modelkit.reading import Files

TOKENIZER_CONFIG = "tokenizer_config.json"
_LIMIT = 16 << 20
_UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
_SMALL = 1 << 20
_POOLING_CONFIG = "1_Pooling/config.json"
_POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
    "pooling_mode_weightedmean_tokens": "weighted_mean",
    "pooling_mode_lasttoken": "last",
}
#: files that sentence-transformers leaves beside a model that turns text into vectors
EMBEDDER_FILES = ("modules.json", _POOLING_CONFIG, "config_sentence_transformers.json")


class _TokenizerConfig(msgspec.Struct, frozen=True):
    tokenizer_class: msgspec.Raw = msgspec.Raw(b"null")
    chat_template: msgspec.Raw = msgspec.Raw(b"null")


class _TemplateFile(msgspec.Struct, frozen=True):
    chat_template: msgspec.Raw = msgspec.Raw(b"null")


class _Module(msgspec.Struct, frozen=True):
    path: str = ""
    type: str = ""


def learn(sheet: FactSheet, files: Files) -> str | None:
    """Learn what the small files say; return the path of the one with the chat template."""
    described = _decoded(files, TOKENIZER_CONFIG, _TokenizerConfig, _LIMIT)
    tokenizer = _value(described.tokenizer_class) if described is not None else None
    if isinstance(tokenizer, str):
        sheet.exact(tokenizer=tokenizer)
    sheet.exact(pooling=_pooling(files))
    for path, templates in _templates(files, described):
        chosen = templates.get("default") or next(iter(templates.values()), None)
        if chosen:
            sheet.exact(chat_template=chosen)
            sheet.exact(supported_features=template_features(templates.values()))
            return path
    return None


def _decoded(files: Files, path: str, kind: type[Any], limit: int) -> Any:
    """Return a small JSON file as ``kind``; one that cannot be read says nothing."""
    data = read_small(files, path, limit)
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=kind)
    except _UNREADABLE:
        return None


def _value(raw: msgspec.Raw) -> Any:
    """Return a field; nothing when it is long: a few bytes of JSON can become many of memory."""
    if memoryview(raw).nbytes > _SMALL:
        return None
    try:
        return msgspec.json.decode(raw)
    except _UNREADABLE:
        return None


def _templates(files: Files, described: _TokenizerConfig | None) -> list[tuple[str, dict[str, str]]]:
    """Return the chat templates by file, in the order in which runtimes look for them."""
    found = []
    data = read_small(files, "chat_template.jinja", _SMALL)
    if data:
        found.append(("chat_template.jinja", _named(data.decode(errors="replace"))))
    one = _decoded(files, "chat_template.json", _TemplateFile, _SMALL)
    if one is not None:
        found.append(("chat_template.json", _named(_value(one.chat_template))))
    if described is not None:
        found.append((TOKENIZER_CONFIG, _named(_value(described.chat_template))))
    return found


def _named(value: Any) -> dict[str, str]:
    """Return templates by name: one text, or a list of names and texts."""
    if isinstance(value, str):
        value = [{"name": "default", "template": value}]
    named = {}
    for one in value if isinstance(value, list) else ():
        text = one.get("template") if isinstance(one, dict) else None
        if isinstance(text, str) and 0 < len(text) <= TEMPLATE_LIMIT:
            named[str(one.get("name"))] = text
    return named


def _pooling(files: Files) -> str | None:
    path = _POOLING_CONFIG
    modules = _decoded(files, "modules.json", list[_Module], _SMALL)
    for module in modules or ():
        if module.type.endswith(".Pooling"):
            path = f"{module.path.strip('/')}/config.json"
    config = _decoded(files, path, dict[str, Any], _SMALL)
    if config is None:
        return None
    mode = config.get("pooling_mode")
    if isinstance(mode, str):
        return {"lasttoken": "last", "weightedmean": "weighted_mean"}.get(mode, mode)
    chosen = [word for flag, word in _POOLING_FLAGS.items() if config.get(flag) is True]
    return chosen[0] if len(chosen) == 1 else None
