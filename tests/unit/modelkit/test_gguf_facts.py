"""Facts of GGUF models: one file, shards, projectors, and what is no model."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np
import pytest

from modelkit import inspection
from modelkit.errors import Damaged, NotAModel, NotServed
from modelkit.formats.gguf_tables import ENCODERS, IMAGE, TEXT, VIDEO
from modelkit.reading import MemoryReader
from tests.kit import models

if TYPE_CHECKING:
    from collections.abc import Callable

    from modelkit.facts import ModelFacts


def made(architecture: str, fill: Callable[[gguf.GGUFWriter], Any]) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "m.gguf"
        writer = gguf.GGUFWriter(path, architecture)
        fill(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


def look(data: bytes) -> ModelFacts:
    return inspection.inspect_gguf({"m.gguf": partial(MemoryReader, data)}).facts


def weight(writer: gguf.GGUFWriter, name: str, *shape: int) -> None:
    writer.add_tensor(name, np.ones(shape, np.float16))


def test_a_plain_model() -> None:
    facts = look(models.gguf_bytes(template="{% for tool in tools %}"))
    assert (facts.format, facts.family, facts.architecture) == ("GGUF", "llama", "llama")
    assert facts.parameter_count == 100 * 64 + 64 + 2 * 128 * 64
    assert (facts.quantization, facts.context_window_tokens) == ("F16", 2048)
    assert facts.supported_endpoint_types == ("Chat", "TextGeneration")
    assert facts.supported_features == ("ToolCalling",)
    geometry = facts.facts
    assert (geometry.layers, geometry.hidden_size, geometry.intermediate_size) == (2, 64, 128)
    assert (geometry.attention_heads, geometry.key_value_heads, geometry.head_dim) == (4, 2, 16)
    assert (geometry.vocabulary_size, geometry.tokenizer, geometry.tied_embeddings) == (100, "gpt2", True)
    assert geometry.dtype_bytes == {"F16": 2 * (100 * 64 + 2 * 128 * 64), "F32": 256}
    assert geometry.weight_bytes == sum(geometry.dtype_bytes.values())
    assert (geometry.tensor_count, geometry.chat_template) == (4, "{% for tool in tools %}")
    assert geometry.experts is None
    assert facts.withheld == ()


def test_a_mixture_counts_what_is_active() -> None:
    def fill(writer: gguf.GGUFWriter) -> None:
        writer.add_expert_count(8)
        writer.add_expert_used_count(2)
        weight(writer, "output.weight", 10, 32)
        weight(writer, "token_embd.weight", 10, 32)
        weight(writer, "blk.0.ffn_up_exps.weight", 8, 4, 32)
        weight(writer, "blk.0.ffn_up_shexp.weight", 4, 32)

    facts = look(made("qwen3moe", fill))
    assert (facts.parameter_count, facts.active_parameter_count) == (640 + 1024 + 128, 640 + 256 + 128)
    assert (facts.facts.experts, facts.facts.active_experts, facts.facts.tied_embeddings) == (8, 2, False)
    assert facts.quantization == "F16"


def test_latent_attention() -> None:
    def fill(writer: gguf.GGUFWriter) -> None:
        writer.add_head_count(16)
        writer.add_head_count_kv(1)
        writer.add_embedding_length(256)
        writer.add_kv_lora_rank(512)
        writer.add_key_length(576)
        writer.add_rope_dimension_count(64)
        weight(writer, "x", 32)

    geometry = look(made("deepseek2", fill)).facts
    assert (geometry.kv_lora_rank, geometry.qk_rope_head_dim, geometry.head_dim) == (512, 64, 576)


@pytest.mark.parametrize(
    ("per_layer", "expected"), [([0, 0, 8, 0], 8), ([4, 4], 4), ([4, 16], None), ([0, 0], None)]
)
def test_numbers_per_layer_are_one_only_when_all_agree(per_layer: list[int], expected: int | None) -> None:
    def fill(writer: gguf.GGUFWriter) -> None:
        writer.add_head_count(16)
        writer.add_head_count_kv(per_layer)
        weight(writer, "x", 32)

    assert look(made("lfm2", fill)).facts.key_value_heads == expected


@pytest.mark.parametrize(
    ("architecture", "pooling", "endpoints", "word"),
    [
        ("bert", gguf.PoolingType.CLS, ("Embeddings",), "cls"),
        ("nomic-bert", gguf.PoolingType.MEAN, ("Embeddings",), "mean"),
        ("qwen3", gguf.PoolingType.LAST, ("Embeddings",), "last"),
        ("qwen3", gguf.PoolingType.RANK, ("Rerank",), "rank"),
        ("bert", gguf.PoolingType.RANK, ("Rerank",), "rank"),
        ("qwen3", gguf.PoolingType.NONE, ("Chat", "TextGeneration"), "none"),
        ("qwen3", None, ("Chat", "TextGeneration"), None),
        ("flux", None, ("ImageGeneration",), None),
        ("wan", None, ("VideoGeneration",), None),
        ("brandnew", None, (), None),
    ],
)
def test_what_can_be_asked(
    architecture: str, pooling: gguf.PoolingType | None, endpoints: tuple[str, ...], word: str | None
) -> None:
    def fill(writer: gguf.GGUFWriter) -> None:
        if pooling is not None:
            writer.add_pooling_type(pooling)
        weight(writer, "x", 32)

    facts = look(made(architecture, fill))
    assert (facts.supported_endpoint_types, facts.facts.pooling) == (endpoints, word)


@pytest.mark.parametrize(("causal", "endpoints"), [(True, ("Chat", "TextGeneration")), (False, ())])
def test_an_unknown_language_model_is_one_by_its_vocabulary(causal: bool, endpoints: tuple[str, ...]) -> None:  # noqa: FBT001
    def fill(writer: gguf.GGUFWriter) -> None:
        writer.add_tokenizer_model("gpt2")
        writer.add_context_length(4096)
        writer.add_causal_attention(causal)
        weight(writer, "x", 32)

    assert look(made("brandnew", fill)).supported_endpoint_types == endpoints


def test_every_architecture_of_the_library_has_its_place() -> None:
    known = set(gguf.MODEL_ARCH_NAMES.values()) - {"clip", "wavtokenizer-dec"}
    assert known <= ENCODERS | TEXT | IMAGE | VIDEO


def shards(count: int) -> dict[str, bytes]:
    def fill(writer: gguf.GGUFWriter, number: int) -> None:
        weight(writer, f"blk.{number}.x", 32)

    return {
        f"m-{number:05d}-of-{count:05d}.gguf": made("llama", partial(fill, number=number))
        for number in range(1, count + 1)
    }


def test_shards_are_one_model() -> None:
    facts = inspection.inspect_files(models.readers(shards(3))).facts
    assert (facts.parameter_count, facts.facts.tensor_count) == (96, 3)


def test_a_missing_shard_is_named() -> None:
    files = shards(3)
    del files["m-00002-of-00003.gguf"]
    with pytest.raises(Damaged, match="m-00002-of-00003"):
        inspection.inspect_files(models.readers(files))


def test_two_models_at_once_are_refused() -> None:
    data = models.gguf_bytes()
    for names in (("a-q4.gguf", "a-q8.gguf"), ("a.gguf", "m-00001-of-00001.gguf")):
        with pytest.raises(NotServed, match="send one of them"):
            inspection.inspect_files(models.readers(dict.fromkeys(names, data)))


def projector(*, vision: bool = True, audio: bool = False) -> bytes:
    def fill(writer: gguf.GGUFWriter) -> None:
        writer.add_bool("clip.has_vision_encoder", vision)
        writer.add_bool("clip.has_audio_encoder", audio)
        weight(writer, "v.blk.0.x", 32)

    return made("clip", fill)


def test_a_projector_adds_what_can_be_sent() -> None:
    files = {"m.gguf": models.gguf_bytes(), "mmproj.gguf": projector(audio=True)}
    facts = inspection.inspect_files(models.readers(files)).facts
    assert facts.supported_endpoint_types == ("Chat", "ImageToText")
    assert facts.supported_features == ("VisionInput", "MultiModalInput", "AudioInput")
    assert facts.facts.tensor_count == 4


def test_what_is_no_model_of_its_own_is_refused() -> None:
    def adapter(writer: gguf.GGUFWriter) -> None:
        writer.add_type(gguf.GGUFType.ADAPTER)
        weight(writer, "x", 32)

    for data, words in (
        (projector(), "send the language model"),
        (made("llama", adapter), "adapter"),
        (made("llama", lambda _: None), "no tensors"),
    ):
        with pytest.raises(NotAModel, match=words):
            look(data)


def test_a_file_type_of_the_future_is_unknown() -> None:
    def fill(writer: gguf.GGUFWriter) -> None:
        writer.add_file_type(4711)
        weight(writer, "x", 32, 32)

    assert look(made("llama", fill)).quantization is None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"GGUF\x03\0\0\0", b"GGUF\x01\0\0\0", "version 1"),
        (b"GGUF\x03\0\0\0", b"GGUF\0\0\0\x03", "big-endian"),
        (b"GGUF\x03\0\0\0", b"GGUF\x09\0\0\0", "version 9 is unknown"),
    ],
)
def test_other_versions_are_named(old: bytes, new: bytes, words: str) -> None:
    with pytest.raises(NotAModel, match=words):
        look(models.gguf_bytes().replace(old, new))


def test_a_file_that_is_cut_off_says_where() -> None:
    data = models.gguf_bytes()
    with pytest.raises(Damaged, match=r"blk\.1\.ffn_up\.weight.*cut off"):
        look(data[:-100])


def test_of_many_files_one_keeps_its_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"a.gguf": models.gguf_bytes(), "b.gguf": models.gguf_bytes(), "mmproj.gguf": projector()}
    kept = inspection._headers(models.readers(files))
    full = [path for path, header in kept.items() if header.metadata.keys() - inspection._KEPT]
    assert full == ["a.gguf"]
    monkeypatch.setattr("modelkit.formats.gguf.TENSOR_LIMIT", 8)
    with pytest.raises(NotServed, match=r"mmproj\.gguf: more than 8 tensors in all files"):
        inspection.inspect_files(models.readers(files))


def test_a_text_that_steers_terminals_is_not_taken() -> None:
    facts = look(models.gguf_bytes(architecture="ll\x1b[2Jama", template="a\nb"))
    assert (facts.family, facts.architecture) == (None, None)
    assert facts.facts.chat_template == "a\nb"
