"""Facts that GGUF headers state: geometry, weights, quantization, what the model can be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelkit.formats.gguf import ArrayValue, GgufHeader, Tensor
from modelkit.formats.gguf_tables import ENCODERS, FILE_TYPES, IMAGE, TEXT, VIDEO
from modelkit.formats.templates import template_features

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modelkit.facts import FactSheet

_POOLING = {0: "none", 1: "mean", 2: "cls", 3: "last", 4: "rank"}
_RANK = 4
#: architecture of a file that only translates pictures or sound for another model
PROJECTOR = "clip"
#: helpers computed from the configuration, no parameters
_BUFFERS = frozenset({"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"})


def learn(sheet: FactSheet, headers: Sequence[GgufHeader]) -> None:
    """Learn what the headers of one model say; the first one carries the metadata of a split model."""
    first = headers[0]
    tensors = [tensor for header in headers for tensor in header.tensors]
    architecture = first.text("general.architecture")
    sheet.exact(architecture=architecture, family=architecture.lower() if architecture else None)
    _learn_geometry(sheet, first, architecture or "")
    _learn_weights(sheet, tensors)
    _learn_quantization(sheet, first, tensors)
    _learn_vocabulary(sheet, first, tensors, architecture or "")
    _learn_template(sheet, first)
    _learn_endpoints(sheet, first, architecture or "")


def learn_projector(sheet: FactSheet, projector: GgufHeader) -> None:
    """Learn what a projector beside the model adds: pictures, sound."""
    endpoints = sheet.value("supported_endpoint_types") or ()
    features = list(sheet.value("supported_features") or ())
    sheet.forget("supported_endpoint_types", "supported_features")
    if projector.flag("clip.has_vision_encoder"):
        features += ["VisionInput", "MultiModalInput"]
        if "Chat" in endpoints:
            endpoints = ("Chat", "ImageToText")
    if projector.flag("clip.has_audio_encoder"):
        features.append("AudioInput")
    sheet.derived(supported_endpoint_types=endpoints, supported_features=tuple(dict.fromkeys(features)))


def _positive(header: GgufHeader, key: str) -> int | None:
    """Return a number above zero; of a list with one per layer, the one that all layers with any share."""
    value = header.metadata.get(key)
    if isinstance(value, ArrayValue):
        items = {one for one in value.items if one}
        value = items.pop() if len(items) == 1 else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _learn_geometry(sheet: FactSheet, header: GgufHeader, architecture: str) -> None:
    def number(key: str) -> int | None:
        return _positive(header, f"{architecture}.{key}")

    heads, hidden, lora = (
        number("attention.head_count"),
        number("embedding_length"),
        number("attention.kv_lora_rank"),
    )
    sheet.exact(
        layers=number("block_count"),
        hidden_size=hidden,
        intermediate_size=number("feed_forward_length"),
        attention_heads=heads,
        key_value_heads=number("attention.head_count_kv"),
        head_dim=number("attention.key_length"),
        experts=number("expert_count"),
        active_experts=number("expert_used_count"),
        sliding_window=number("attention.sliding_window"),
        kv_lora_rank=lora,
        qk_rope_head_dim=number("rope.dimension_count") if lora else None,
        context_window_tokens=number("context_length"),
        pooling=_POOLING.get(header.number(f"{architecture}.pooling_type") or -1)
        or ("none" if header.number(f"{architecture}.pooling_type") == 0 else None),
    )
    if f"{architecture}.attention.head_count_kv" not in header.metadata:
        sheet.derived(key_value_heads=heads)
    if heads and hidden and hidden % heads == 0 and not lora:
        sheet.derived(head_dim=hidden // heads)


def _learn_weights(sheet: FactSheet, tensors: Sequence[Tensor]) -> None:
    dtype_bytes: dict[str, int] = {}
    parameters = routed = 0
    for tensor in tensors:
        dtype_bytes[tensor.dtype] = dtype_bytes.get(tensor.dtype, 0) + tensor.size
        if tensor.name not in _BUFFERS:
            parameters += tensor.elements
        if "_exps." in tensor.name:
            routed += tensor.elements
    sheet.exact(
        parameter_count=parameters or None,
        weight_bytes=sum(dtype_bytes.values()) or None,
        dtype_bytes=dict(sorted(dtype_bytes.items())),
        tensor_count=len(tensors) or None,
    )
    experts, active = sheet.value("experts"), sheet.value("active_experts")
    if routed and experts and active and active <= experts:
        sheet.derived(active_parameter_count=parameters - routed + routed * active // experts)


def _learn_quantization(sheet: FactSheet, header: GgufHeader, tensors: Sequence[Tensor]) -> None:
    file_type = header.number("general.file_type")
    if file_type is not None:
        sheet.exact(quantization=FILE_TYPES.get(file_type))
        return
    kinds = {tensor.dtype for tensor in tensors if len(tensor.shape) > 1}
    if len(kinds) == 1 and kinds <= set(FILE_TYPES.values()):
        sheet.derived(quantization=kinds.pop())


def _learn_vocabulary(
    sheet: FactSheet, header: GgufHeader, tensors: Sequence[Tensor], architecture: str
) -> None:
    shapes = {
        tensor.name: tensor.shape
        for tensor in tensors
        if tensor.name in {"token_embd.weight", "output.weight"}
    }
    embedding = shapes.get("token_embd.weight", ())
    tokens = header.metadata.get("tokenizer.ggml.tokens")
    sheet.exact(
        vocabulary_size=_positive(header, f"{architecture}.vocab_size")
        or (tokens.length if isinstance(tokens, ArrayValue) and tokens.length else None)
        or (embedding[1] if len(embedding) == 2 else None),  # noqa: PLR2004
        tokenizer=header.text("tokenizer.ggml.model"),
    )
    if embedding and architecture not in ENCODERS:
        sheet.exact(tied_embeddings="output.weight" not in shapes)


def _learn_template(sheet: FactSheet, header: GgufHeader) -> None:
    template = header.text("tokenizer.chat_template")
    sheet.exact(chat_template=template)
    texts = [template, header.text("tokenizer.chat_template.tool_use")]
    sheet.exact(supported_features=template_features([text for text in texts if text]))


def _learn_endpoints(sheet: FactSheet, header: GgufHeader, architecture: str) -> None:
    pooling = header.number(f"{architecture}.pooling_type")
    if architecture in IMAGE or architecture in VIDEO:
        video = architecture in VIDEO
        sheet.derived(
            supported_endpoint_types=("VideoGeneration",) if video else ("ImageGeneration",),
            supported_features=("VideoOutput",) if video else ("ImageOutput",),
        )
    elif pooling == _RANK:
        sheet.derived(supported_endpoint_types=("Rerank",))
    elif architecture in ENCODERS or pooling:
        sheet.derived(supported_endpoint_types=("Embeddings",))
    elif architecture in TEXT or _writes_text(header, architecture):
        sheet.derived(supported_endpoint_types=("Chat", "TextGeneration"))


def _writes_text(header: GgufHeader, architecture: str) -> bool:
    """A language model has a vocabulary and looks at what came before only."""
    return (
        header.text("tokenizer.ggml.model") is not None
        and _positive(header, f"{architecture}.context_length") is not None
        and header.flag(f"{architecture}.attention.causal") is not False
        and architecture != PROJECTOR
    )
