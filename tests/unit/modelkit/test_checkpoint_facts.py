"""Facts of checkpoints: parameters, quantization, geometry, endpoints, companions."""

from __future__ import annotations

import json
import struct
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from safetensors.numpy import save

from modelkit import inspection
from modelkit.errors import Damaged, NotAModel, NotServed
from modelkit.facts import Confidence
from modelkit.formats import safetensors
from tests.kit import models
from tests.kit.vectors import cases

if TYPE_CHECKING:
    from modelkit.facts import ModelFacts

#: words of vectors/name-parsing.json, and the one that stands only in their description
WORDS = {case.values[0]["expected"].get("weight_format") for case in cases("name-parsing.json", None)} | {
    "mlx4"
}


class Headless:
    """A Safetensors file of any size of which only the header is there."""

    def __init__(self, tensors: dict[str, tuple[str, list[int]]]) -> None:
        offset, header = 0, {}
        for name, (dtype, shape) in tensors.items():
            size = safetensors.TYPES[dtype]
            for side in shape:
                size *= side
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size // 8]}
            offset += size // 8
        text = json.dumps(header).encode()
        self._head = struct.pack("<Q", len(text)) + text
        self.size = len(self._head) + offset

    def read_at(self, offset: int, length: int) -> bytes:
        assert offset + length <= len(self._head), "tensor data was read"
        return self._head[offset : offset + length]


def look(config: dict[str, Any], tensors: dict[str, tuple[str, list[int]]], **others: Any) -> ModelFacts:
    files: dict[str, Any] = {"model.safetensors": partial(Headless, tensors)}
    texts = {"config.json": json.dumps(config).encode()}
    texts.update(
        {path: one if isinstance(one, bytes) else json.dumps(one).encode() for path, one in others.items()}
    )
    return inspection.inspect_files({**files, **models.readers(texts)}).facts


def decoder(case: dict[str, Any], dtype: str = "BF16") -> dict[str, tuple[str, list[int]]]:
    """Return the tensors of a decoder with the geometry of a vector."""
    hidden, heads, size = case["hidden_size"], case["heads"], case["head_dim"]
    tensors = {"model.embed_tokens.weight": (dtype, [case["vocab_size"], hidden])}
    if not case["tied_embeddings"]:
        tensors["lm_head.weight"] = (dtype, [case["vocab_size"], hidden])
    for layer in range(case["layers"]):
        at = f"model.layers.{layer}."
        for name, rows in (("q", heads), ("k", case["kv_heads"]), ("v", case["kv_heads"])):
            tensors[f"{at}self_attn.{name}_proj.weight"] = (dtype, [rows * size, hidden])
        tensors[f"{at}self_attn.o_proj.weight"] = (dtype, [hidden, heads * size])
        tensors[f"{at}input_layernorm.weight"] = (dtype, [hidden])
        experts = case.get("experts", 0)
        for name in ("gate", "up", "down"):
            shape = [case.get("ffn_size", case.get("moe_ffn_size")), hidden]
            if experts:
                tensors[f"{at}mlp.experts.{name}_proj"] = (dtype, [experts, *shape])
            else:
                tensors[f"{at}mlp.{name}_proj.weight"] = (dtype, shape)
    return tensors


@pytest.mark.parametrize(
    "case",
    [
        one
        for one in cases("models.json", "dense-tied", "dense-untied", "moe", "swa")
        if one.values[0]["attention"] == "GQA"
    ],
)
def test_parameters_and_bytes_of_known_models(case: dict[str, Any]) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": case["hidden_size"],
        "num_hidden_layers": case["layers"],
        "num_attention_heads": case["heads"],
        "num_key_value_heads": case["kv_heads"],
        "head_dim": case["head_dim"],
        "vocab_size": case["vocab_size"],
        "tie_word_embeddings": case["tied_embeddings"],
    }
    facts = look(config, decoder(case))
    assert facts.parameter_count == pytest.approx(case["expected"]["params_b"] * 1e9, rel=0.006)
    assert facts.facts.weight_bytes == pytest.approx(
        case["expected"]["weights_gib"]["bf16"] * 2**30, rel=0.006
    )
    assert facts.facts.layers == case["layers"]
    key_value = 2 * 2 * case["layers"] * (facts.facts.key_value_heads or 0) * (facts.facts.head_dim or 0)
    assert key_value == case["expected"]["kv_bytes_per_token_bf16"]
    assert facts.quantization == "16bit"


EMBEDDING = ("BF16", [1000, 64])
TIED = {
    "model.embed_tokens.weight": EMBEDDING,
    "lm_head.weight": EMBEDDING,
    "model.norm.weight": ("BF16", [64]),
}


@pytest.mark.parametrize(
    ("config", "expected", "tied"),
    [
        ({"tie_word_embeddings": True}, 64_064, True),
        ({"tie_word_embeddings": False}, 128_064, False),
        ({"model_type": "llama"}, 128_064, False),
        ({"model_type": "gemma3_text"}, 64_064, True),
        ({"model_type": "nobody_knows"}, 128_064, False),
        ({"text_config": {"tie_word_embeddings": True}, "model_type": "unknown_vl"}, 64_064, True),
    ],
)
def test_a_tied_embedding_counts_once(config: dict[str, Any], expected: int, tied: bool) -> None:  # noqa: FBT001
    facts = look({"architectures": ["XForCausalLM"], **config}, TIED)
    assert (facts.parameter_count, facts.facts.tied_embeddings) == (expected, tied)
    assert facts.facts.tensor_count == 3
    assert facts.facts.weight_bytes == 2 * 128_064


def test_a_model_without_a_head_of_its_own_is_tied() -> None:
    facts = look(
        {"architectures": ["XForCausalLM"], "model_type": "unknown"}, {"model.embed_tokens.weight": EMBEDDING}
    )
    assert facts.facts.tied_embeddings is True
    assert facts.facts.vocabulary_size == 1000


def test_shared_embeddings_of_an_encoder_and_decoder_count_once() -> None:
    tensors = {
        "shared.weight": EMBEDDING,
        "encoder.embed_tokens.weight": EMBEDDING,
        "decoder.embed_tokens.weight": EMBEDDING,
        "lm_head.weight": EMBEDDING,
    }
    config = {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "tie_word_embeddings": False,
    }
    assert look(config, tensors).parameter_count == 2 * 64_000


def test_buffers_are_no_parameters() -> None:
    tensors = {
        "embeddings.word_embeddings.weight": EMBEDDING,
        "embeddings.position_ids": ("I64", [1, 512]),
        "layer.0.rotary_emb.inv_freq": ("F32", [32]),
    }
    facts = look({"architectures": ["BertModel"], "model_type": "bert"}, tensors)
    assert facts.parameter_count == 64_000
    assert facts.facts.dtype_bytes == {"BF16": 128_000, "F32": 128, "I64": 4096}


LINEAR = "model.layers.0.mlp.up_proj"
QUANTIZED: dict[str, tuple[dict[str, Any], dict[str, tuple[str, list[int]]], str | None, int | None]] = {
    "awq": (
        {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}},
        {
            f"{LINEAR}.qweight": ("I32", [256, 64]),
            f"{LINEAR}.qzeros": ("I32", [2, 64]),
            f"{LINEAR}.scales": ("F16", [2, 512]),
        },
        "awq4",
        256 * 512,
    ),
    "gptq": (
        {"quantization_config": {"quant_method": "gptq", "bits": 4}},
        {
            f"{LINEAR}.qweight": ("I32", [32, 512]),
            f"{LINEAR}.g_idx": ("I32", [256]),
            f"{LINEAR}.scales": ("F16", [2, 512]),
        },
        "int4",
        256 * 512,
    ),
    "gptq8": (
        {"quantization_config": {"quant_method": "gptq", "bits": 8}},
        {f"{LINEAR}.qweight": ("I32", [64, 512])},
        "int8",
        256 * 512,
    ),
    "bnb4": (
        {
            "quantization_config": {
                "quant_method": "bitsandbytes",
                "load_in_4bit": True,
                "bnb_4bit_quant_type": "nf4",
            }
        },
        {
            f"{LINEAR}.weight": ("U8", [65536, 1]),
            f"{LINEAR}.weight.absmax": ("U8", [2048]),
            f"{LINEAR}.weight.quant_map": ("F32", [16]),
            f"{LINEAR}.weight.quant_state.bitsandbytes__nf4": ("U8", [100]),
        },
        "bnb4",
        131072,
    ),
    "bnb4-dynamic": (
        {
            "quantization_config": {
                "quant_method": "bitsandbytes",
                "load_in_4bit": True,
                "llm_int8_skip_modules": ["lm_head", "model.layers.1.mlp"],
            }
        },
        {f"{LINEAR}.weight": ("U8", [8, 1])},
        "bnb4-dynamic",
        16,
    ),
    "bnb8": (
        {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}},
        {f"{LINEAR}.weight": ("I8", [64, 64]), f"{LINEAR}.SCB": ("F32", [64])},
        "int8",
        4096,
    ),
    "fp8": (
        {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}},
        {f"{LINEAR}.weight": ("F8_E4M3", [64, 64]), f"{LINEAR}.weight_scale_inv": ("F32", [1, 1])},
        "fp8",
        4096,
    ),
    "w4a16": (
        {
            "quantization_config": {
                "quant_method": "compressed-tensors",
                "format": "pack-quantized",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}},
            }
        },
        {
            f"{LINEAR}.weight_packed": ("I32", [64, 8]),
            f"{LINEAR}.weight_scale": ("BF16", [64, 1]),
            f"{LINEAR}.weight_shape": ("I64", [2]),
        },
        "int4",
        4096,
    ),
    "w8a8": (
        {
            "quantization_config": {
                "quant_method": "compressed-tensors",
                "format": "int-quantized",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int"}}},
            }
        },
        {f"{LINEAR}.weight": ("I8", [64, 64]), f"{LINEAR}.weight_scale": ("BF16", [64, 1])},
        "int8",
        4096,
    ),
    "nvfp4 compressed": (
        {
            "quantization_config": {
                "quant_method": "compressed-tensors",
                "format": "nvfp4-pack-quantized",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}},
            }
        },
        {
            f"{LINEAR}.weight_packed": ("U8", [64, 32]),
            f"{LINEAR}.weight_scale": ("F8_E4M3", [64, 4]),
            f"{LINEAR}.weight_global_scale": ("F32", [1]),
        },
        "nvfp4",
        4096,
    ),
    "nvfp4 modelopt": (
        {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}},
        {
            f"{LINEAR}.weight": ("U8", [64, 32]),
            f"{LINEAR}.weight_scale": ("F8_E4M3", [64, 4]),
            f"{LINEAR}.weight_scale_2": ("F32", []),
            f"{LINEAR}.input_scale": ("F32", []),
        },
        "nvfp4",
        4096,
    ),
    "mxfp4": (
        {"quantization_config": {"quant_method": "mxfp4"}},
        {
            "model.layers.0.mlp.experts.gate_up_proj_blocks": ("U8", [2, 64, 2, 16]),
            "model.layers.0.mlp.experts.gate_up_proj_scales": ("U8", [2, 64, 2]),
        },
        "mxfp4",
        8192,
    ),
    "mlx": (
        {"quantization": {"group_size": 64, "bits": 4}},
        {
            f"{LINEAR}.weight": ("U32", [64, 8]),
            f"{LINEAR}.scales": ("F16", [64, 1]),
            f"{LINEAR}.biases": ("F16", [64, 1]),
        },
        "mlx4",
        4096,
    ),
    "bitnet": (
        {"quantization_config": {"quant_method": "bitnet"}},
        {f"{LINEAR}.weight": ("U8", [16, 64]), f"{LINEAR}.weight_scale": ("BF16", [1])},
        "1.58bit",
        4096,
    ),
    "exl2": (
        {"quantization_config": {"quant_method": "exl2", "bits": 4.0}},
        {f"{LINEAR}.q_weight": ("I32", [100, 64])},
        "exl2",
        None,
    ),
    "aqlm": (
        {"quantization_config": {"quant_method": "aqlm"}},
        {f"{LINEAR}.codes": ("I16", [8, 8, 1])},
        None,
        None,
    ),
    "float32": ({}, {f"{LINEAR}.weight": ("F32", [64, 64])}, "32bit-on-disk", 4096),
}


@pytest.mark.parametrize("name", QUANTIZED)
def test_packed_weights_count_as_what_they_stand_for(name: str) -> None:
    quantization, tensors, word, parameters = QUANTIZED[name]
    facts = look({**models.CONFIG, **quantization}, {**tensors, "model.norm.weight": ("BF16", [64])})
    assert facts.quantization == word
    assert facts.parameter_count == (None if parameters is None else parameters + 64)
    assert word is None or word in WORDS
    if parameters is not None and quantization and name not in {"fp8", "w8a8"}:
        assert facts.confidence["parameterCount"] == Confidence.DERIVED


def test_quantization_may_stand_in_a_file_of_its_own() -> None:
    facts = look(
        models.CONFIG,
        {f"{LINEAR}.weight": ("F8_E4M3", [64, 64])},
        **{"hf_quant_config.json": {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}},
    )
    assert facts.quantization == "fp8"


def test_active_parameters_of_a_mixture() -> None:
    tensors = {"model.norm.weight": ("BF16", [100])}
    for expert in range(8):
        tensors[f"model.layers.0.mlp.experts.{expert}.up_proj.weight"] = ("BF16", [10, 10])
    tensors["model.layers.0.mlp.shared_experts.up_proj.weight"] = ("BF16", [10, 10])
    config = {
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    }
    facts = look(config, tensors)
    assert (facts.parameter_count, facts.active_parameter_count) == (1000, 400)
    assert (facts.facts.experts, facts.facts.active_experts) == (8, 2)


GEOMETRY: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "gpt2 names": (
        {
            "model_type": "gpt2",
            "n_embd": 768,
            "n_layer": 12,
            "n_head": 12,
            "n_positions": 1024,
            "n_ctx": 1024,
            "vocab_size": 50257,
            "n_inner": None,
        },
        {
            "hidden_size": 768,
            "layers": 12,
            "attention_heads": 12,
            "key_value_heads": 12,
            "head_dim": 64,
            "intermediate_size": 3072,
        },
    ),
    "defaults that are left out": (
        {"model_type": "llama", "hidden_size": 4096},
        {
            "layers": 32,
            "attention_heads": 32,
            "key_value_heads": 32,
            "head_dim": 128,
            "intermediate_size": 11008,
        },
    ),
    "nested language part": (
        {
            "model_type": "gemma3",
            "text_config": {
                "model_type": "gemma3_text",
                "hidden_size": 2560,
                "num_hidden_layers": 34,
                "sliding_window": 1024,
            },
        },
        {
            "hidden_size": 2560,
            "layers": 34,
            "attention_heads": 8,
            "key_value_heads": 4,
            "head_dim": 256,
            "sliding_window": 1024,
        },
    ),
    "flat as older files are": (
        {
            "model_type": "qwen2_vl",
            "hidden_size": 1536,
            "num_hidden_layers": 28,
            "num_attention_heads": 12,
            "num_key_value_heads": 2,
        },
        {"hidden_size": 1536, "layers": 28, "key_value_heads": 2, "head_dim": 128},
    ),
    "mla": (
        {
            "model_type": "deepseek_v3",
            "hidden_size": 7168,
            "num_hidden_layers": 61,
            "kv_lora_rank": 512,
            "qk_rope_head_dim": 64,
            "n_routed_experts": 256,
            "num_experts_per_tok": 8,
        },
        {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "head_dim": 576, "experts": 256, "active_experts": 8},
    ),
    "window that is switched off": (
        {
            "model_type": "qwen2",
            "hidden_size": 896,
            "num_attention_heads": 14,
            "sliding_window": 32768,
            "use_sliding_window": False,
        },
        {"sliding_window": None, "head_dim": 64},
    ),
    "multi query": (
        {
            "model_type": "falcon",
            "hidden_size": 4544,
            "num_attention_heads": 71,
            "multi_query": True,
            "new_decoder_architecture": False,
        },
        {"key_value_heads": 1, "head_dim": 64, "intermediate_size": 4 * 4544},
    ),
    "grouped falcon": (
        {
            "model_type": "falcon",
            "hidden_size": 8192,
            "num_attention_heads": 128,
            "num_kv_heads": 8,
            "new_decoder_architecture": True,
        },
        {"key_value_heads": 8, "head_dim": 64},
    ),
    "dbrx": (
        {
            "model_type": "dbrx",
            "d_model": 6144,
            "n_heads": 48,
            "n_layers": 40,
            "attn_config": {"kv_n_heads": 8},
            "ffn_config": {"moe_num_experts": 16, "moe_top_k": 4},
        },
        {"hidden_size": 6144, "key_value_heads": 8, "experts": 16, "active_experts": 4, "head_dim": 128},
    ),
    "state space": (
        {"model_type": "mamba", "hidden_size": 768, "num_hidden_layers": 32},
        {"attention_heads": None, "key_value_heads": None, "head_dim": None},
    ),
    "decoder of whisper": (
        {
            "model_type": "whisper",
            "d_model": 1280,
            "encoder_layers": 32,
            "decoder_layers": 4,
            "num_hidden_layers": 32,
            "decoder_attention_heads": 20,
            "encoder_attention_heads": 20,
        },
        {"hidden_size": 1280, "layers": 4, "attention_heads": 20, "key_value_heads": 20},
    ),
    "unknown type": (
        {"model_type": "brand_new", "dim": 512, "n_layers": 6, "n_heads": 8, "n_kv_heads": 2},
        {"hidden_size": 512, "layers": 6, "attention_heads": 8, "head_dim": 64},
    ),
    "null means derive": (
        {
            "model_type": "llama",
            "hidden_size": 512,
            "num_attention_heads": 8,
            "num_key_value_heads": None,
            "head_dim": None,
        },
        {"key_value_heads": 8, "head_dim": 64},
    ),
    "nothing known": (
        {"model_type": "brand_new"},
        {"layers": None, "hidden_size": None, "attention_heads": None},
    ),
}


@pytest.mark.parametrize("name", GEOMETRY)
def test_geometry_under_many_names(name: str) -> None:
    config, expected = GEOMETRY[name]
    facts = look(config, {"x": ("BF16", [4])}).facts
    assert {key: getattr(facts, key) for key in expected} == expected


ENDPOINTS: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, ...], tuple[str, ...]]] = {
    "chat": ({"architectures": ["Qwen3ForCausalLM"]}, {}, ("Chat", "TextGeneration"), ()),
    "vision": (
        {"architectures": ["Qwen2VLForConditionalGeneration"]},
        {},
        ("Chat", "ImageToText"),
        ("VisionInput", "VideoInput", "MultiModalInput"),
    ),
    "embedder": ({"architectures": ["XLMRobertaModel"]}, {}, ("Embeddings",), ()),
    "causal embedder": ({"architectures": ["Qwen3ForCausalLM"]}, {"modules.json": []}, ("Embeddings",), ()),
    "reranker": (
        {"architectures": ["XLMRobertaForSequenceClassification"], "id2label": {"0": "LABEL_0"}},
        {},
        ("Rerank",),
        (),
    ),
    "classifier": (
        {
            "architectures": ["XLMRobertaForSequenceClassification"],
            "id2label": {"0": "A", "1": "B", "2": "C"},
        },
        {},
        (),
        (),
    ),
    "classifier by default": ({"architectures": ["BertForSequenceClassification"]}, {}, (), ()),
    "speech": (
        {"architectures": ["WhisperForConditionalGeneration"]},
        {},
        ("SpeechToText",),
        ("AudioInput",),
    ),
    "pictures": (
        {"architectures": ["ViTForImageClassification"]},
        {},
        ("ImageClassification",),
        ("VisionInput",),
    ),
    "unknown causal": ({"architectures": ["BrandNewForCausalLM"]}, {}, ("Chat", "TextGeneration"), ()),
    "unknown vision": (
        {"architectures": ["BrandNewForConditionalGeneration"], "vision_config": {}},
        {},
        ("Chat", "ImageToText"),
        ("VisionInput", "MultiModalInput"),
    ),
    "unknown model": ({"architectures": ["BrandNewModel"]}, {}, ("Embeddings",), ()),
    "unknown form": ({"architectures": ["Something"]}, {}, (), ()),
    "none": ({}, {}, (), ()),
}


@pytest.mark.parametrize("name", ENDPOINTS)
def test_what_a_class_can_be_asked(name: str) -> None:
    config, others, endpoints, features = ENDPOINTS[name]
    facts = look(config, {"x": ("BF16", [4])}, **others)
    assert (facts.supported_endpoint_types, facts.supported_features) == (endpoints, features)


def test_companions_tell_template_tokenizer_and_pooling() -> None:
    facts = look(
        {"architectures": ["BertModel"], "model_type": "bert"},
        {"x": ("BF16", [4])},
        **{
            "tokenizer_config.json": {
                "tokenizer_class": "BertTokenizer",
                "chat_template": [
                    {"name": "default", "template": "A"},
                    {"name": "tool_use", "template": "{% for tool in tools %}"},
                ],
            },
            "modules.json": [{"path": "9_Pooling", "type": "sentence_transformers.models.Pooling"}],
            "9_Pooling/config.json": {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True},
        },
    )
    assert (facts.facts.tokenizer, facts.facts.chat_template, facts.facts.pooling) == (
        "BertTokenizer",
        "A",
        "mean",
    )
    assert facts.supported_features == ("ToolCalling",)


def test_a_template_file_wins_over_the_tokenizers() -> None:
    files = models.readers({**models.checkpoint(), "chat_template.jinja": b"{{ x }}"})
    found = inspection.inspect_files(files)
    assert (found.template_path, found.facts.facts.chat_template) == ("chat_template.jinja", "{{ x }}")


def test_copies_in_another_layout_are_not_counted_twice() -> None:
    files = models.checkpoint(shards=2)
    once = inspection.inspect_files(models.readers(files)).facts
    files["consolidated.safetensors"] = files["model-00001-of-00002.safetensors"]
    files["original/x.safetensors"] = files["model-00001-of-00002.safetensors"]
    assert inspection.inspect_files(models.readers(files)).facts == once
    del files["model.safetensors.index.json"]
    assert inspection.inspect_files(models.readers(files)).facts == once


@pytest.mark.parametrize("with_index", [True, False])
def test_a_missing_shard_is_named(with_index: bool) -> None:  # noqa: FBT001
    files = models.checkpoint(shards=3)
    del files["model-00002-of-00003.safetensors"]
    if not with_index:
        del files["model.safetensors.index.json"]
    with pytest.raises(Damaged, match="model-00002-of-00003"):
        inspection.inspect_files(models.readers(files))


@pytest.mark.parametrize("config", [b"", b"[]", b"{", b"\xff", b'{"a":' + b"[" * 100_000])
def test_a_configuration_that_cannot_be_read_is_damaged(config: bytes) -> None:
    files = {**models.checkpoint(), "config.json": config}
    with pytest.raises(Damaged, match=r"config\.json"):
        inspection.inspect_files(models.readers(files))


def test_numbers_that_are_none_are_unknown() -> None:
    config = {
        "model_type": "brand_new",
        "hidden_size": "large",
        "num_hidden_layers": -1,
        "n_heads": True,
        "vocab_size": 0,
    }
    facts = look(config, {"x": ("BF16", [4])}).facts
    assert (facts.hidden_size, facts.layers, facts.attention_heads, facts.vocabulary_size) == (None,) * 4


def test_a_pipeline_adds_up_its_parts_once() -> None:

    part = save({"conv.weight": np.ones((8, 4), np.float16)})
    files = {
        "model_index.json": b'{"_class_name": "StableDiffusionXLPipeline"}',
        "unet/diffusion_pytorch_model.safetensors": part,
        "unet/diffusion_pytorch_model.fp16.safetensors": part,
        "vae/diffusion_pytorch_model.safetensors": part,
        "vae/config.json": b"{}",
    }
    facts = inspection.inspect_files(models.readers(files)).facts
    assert (facts.architecture, facts.family) == ("StableDiffusionXLPipeline", "stable-diffusion-xl")
    assert (facts.supported_endpoint_types, facts.supported_features) == (
        ("ImageGeneration",),
        ("ImageOutput",),
    )
    assert (facts.parameter_count, facts.facts.weight_bytes) == (64, 128)
    files["text_encoder/pytorch_model.bin"] = b"pickle"
    assert inspection.inspect_files(models.readers(files)).facts.parameter_count is None


def test_files_without_tensors_are_no_model() -> None:
    with pytest.raises(NotAModel, match="no tensors"):
        inspection.inspect_tensors({"m.safetensors": partial(Headless, {})})


def test_numbers_beyond_any_model_are_not_taken() -> None:
    huge = b'{"model.embed_tokens.weight":{"dtype":"F16","shape":[%d,0],"data_offsets":[0,0]}}' % 2**70
    files = {"config.json": b'{"architectures":["LlamaForCausalLM"]}'}
    files["model.safetensors"] = struct.pack("<Q", len(huge)) + huge
    facts = inspection.inspect_files(models.readers(files)).facts
    assert facts.facts.vocabulary_size is None
    assert msgspec.json.encode(facts)


def test_a_chat_template_that_is_a_heap_of_lists_is_passed_over() -> None:
    heap = b'{"chat_template": [' + b"[]," * (1 << 19) + b'[]], "tokenizer_class": "T"}'
    files = models.checkpoint() | {"tokenizer_config.json": heap}
    facts = inspection.inspect_files(models.readers(files)).facts
    assert (facts.facts.chat_template, facts.facts.tokenizer) == (None, "T")


def test_an_index_of_endless_names_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    files = models.checkpoint(shards=2)
    monkeypatch.setattr(safetensors, "INDEX_NAMES", 3)
    with pytest.raises(NotServed, match=r"index\.json: an index of more than 3 tensors"):
        inspection.inspect_files(models.readers(files))
