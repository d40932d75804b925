"""Facts of a model: the names that ``aictl inspect``, the artifact's annotation and the lookup share.

Every fact has a confidence. Only what was read, declared or follows by a stable rule is public; estimates and
hints are withheld, and what is unknown is absent, never zero.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

#: longest chat template and longest other text that is taken, in characters
TEMPLATE_LIMIT = 256 * 1024
TEXT_LIMIT = 256
#: largest number that is taken: every reader of JSON keeps it as it is
NUMBER_LIMIT = (1 << 53) - 1


class Confidence(StrEnum):
    """How a fact is known."""

    EXACT = "Exact"
    DECLARED = "Declared"
    DERIVED = "Derived"
    ESTIMATED = "Estimated"
    HINT = "Hint"


_RANK = {confidence: rank for rank, confidence in enumerate(Confidence)}
PUBLIC = (Confidence.EXACT, Confidence.DECLARED, Confidence.DERIVED)


class Geometry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Shape and weight of the network: the ``facts`` of the public documents."""

    layers: int | None = None
    hidden_size: int | None = None
    intermediate_size: int | None = None
    attention_heads: int | None = None
    key_value_heads: int | None = None
    head_dim: int | None = None
    vocabulary_size: int | None = None
    experts: int | None = None
    active_experts: int | None = None
    sliding_window: int | None = None
    kv_lora_rank: int | None = None
    qk_rope_head_dim: int | None = None
    tied_embeddings: bool | None = None
    weight_bytes: int | None = None
    tensor_count: int | None = None
    dtype_bytes: dict[str, int] | None = None
    pooling: str | None = None
    #: the template itself; in a published artifact the path of the file that holds it
    chat_template: str | None = None
    tokenizer: str | None = None


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Everything public that is known about one model."""

    format: str
    family: str | None = None
    architecture: str | None = None
    parameter_count: int | None = None
    active_parameter_count: int | None = None
    quantization: str | None = None
    context_window_tokens: int | None = None
    supported_endpoint_types: tuple[str, ...] = ()
    supported_features: tuple[str, ...] = ()
    facts: Geometry = Geometry()
    confidence: dict[str, Confidence] = {}
    #: names of facts that were only estimated or guessed
    withheld: tuple[str, ...] = ()


class FactSheet:
    """Collects facts while a model is read; the best-known value of each name stays."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Any, Confidence]] = {}

    def learn(self, name: str, value: Any, confidence: Confidence) -> None:
        """Take a fact unless it is nothing, longer or larger than any, or known better already."""
        if value is None or value in ("", (), {}):
            return
        if isinstance(value, int) and value > NUMBER_LIMIT:
            return
        if isinstance(value, str) and not _taken(name, value):
            return
        known = self._known.get(name)
        if known is None or _RANK[confidence] < _RANK[known[1]]:
            self._known[name] = (value, confidence)

    def exact(self, **facts: Any) -> None:
        """Learn facts that were read from the artifact."""
        for name, value in facts.items():
            self.learn(name, value, Confidence.EXACT)

    def derived(self, **facts: Any) -> None:
        """Learn facts that follow from others by a stable rule."""
        for name, value in facts.items():
            self.learn(name, value, Confidence.DERIVED)

    def forget(self, *names: str) -> None:
        """Drop facts that turned out not to hold for the model as a whole."""
        for name in names:
            self._known.pop(name, None)

    def value(self, name: str) -> Any:
        """Return what is known under the name, or ``None``."""
        known = self._known.get(name)
        return known[0] if known else None

    def is_exact(self, name: str) -> bool:
        """Say whether a fact was read from the artifact."""
        return name in self._known and self._known[name][1] is Confidence.EXACT

    def publish(self, model_format: str) -> ModelFacts:
        """Return the public facts."""
        public = {name: known for name, known in self._known.items() if known[1] in PUBLIC}
        top = {name: value for name, (value, _) in public.items() if name in ModelFacts.__struct_fields__}
        deep = {name: value for name, (value, _) in public.items() if name in Geometry.__struct_fields__}
        return ModelFacts(
            format=model_format,
            facts=Geometry(**deep),
            confidence={_camel(name): confidence for name, (_, confidence) in sorted(public.items())},
            withheld=tuple(sorted(_camel(name) for name in self._known.keys() - public.keys())),
            **top,
        )


def _taken(name: str, text: str) -> bool:
    """Say whether a text is taken: short, and nothing in it steers the terminals that will show it."""
    if name == "chat_template":
        return len(text) <= TEMPLATE_LIMIT
    return len(text) <= TEXT_LIMIT and text.isprintable()


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
