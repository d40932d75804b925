"""Small models in every format that tests need, made by the formats' own libraries."""

from __future__ import annotations

import io
import json
import tarfile
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np
from safetensors.numpy import save

from modelkit.reading import MemoryReader

if TYPE_CHECKING:
    from modelkit.reading import Files

LAYERS, HIDDEN, VOCABULARY, HEADS, INNER = 2, 64, 100, 4, 128


def gguf_bytes(*, size: int = 0, template: str = "{{ messages }}", architecture: str = "llama") -> bytes:
    """Return a small GGUF model; ``size`` adds so many bytes of weights."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "m.gguf"
        writer = gguf.GGUFWriter(path, architecture)
        writer.add_block_count(LAYERS)
        writer.add_context_length(2048)
        writer.add_embedding_length(HIDDEN)
        writer.add_feed_forward_length(INNER)
        writer.add_head_count(HEADS)
        writer.add_head_count_kv(2)
        writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list([f"token-{number}" for number in range(VOCABULARY)])
        writer.add_chat_template(template)
        writer.add_tensor("token_embd.weight", np.ones((VOCABULARY, HIDDEN), np.float16))
        writer.add_tensor("output_norm.weight", np.ones(HIDDEN, np.float32))
        for layer in range(LAYERS):
            writer.add_tensor(f"blk.{layer}.ffn_up.weight", np.ones((INNER, HIDDEN), np.float16))
        if size:
            noise = np.random.default_rng(size).integers(-128, 127, size, np.int8, endpoint=True)
            writer.add_tensor("blk.0.ffn_down.weight", noise.reshape(-1, 1024))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def checkpoint(*, shards: int = 1, size: int = 0, config: dict[str, Any] | None = None) -> dict[str, bytes]:
    """Return the files of a small Safetensors checkpoint; ``size`` adds so many bytes to each shard."""
    tensors = {
        "model.embed_tokens.weight": np.ones((VOCABULARY, HIDDEN), np.float16),
        "lm_head.weight": np.ones((VOCABULARY, HIDDEN), np.float16),
        "model.norm.weight": np.ones(HIDDEN, np.float16),
    }
    files: dict[str, bytes] = {
        "config.json": json.dumps(CONFIG if config is None else config).encode(),
        "tokenizer_config.json": json.dumps(
            {"tokenizer_class": "LlamaTokenizer", "chat_template": "{% if tools %}{{ tools }}{% endif %}"}
        ).encode(),
        "tokenizer.json": b"{}",
        "README.md": b"# a model\n",
    }
    weight_map: dict[str, str] = {}
    for number in range(1, shards + 1):
        part = dict(tensors) if number == 1 else {}
        part[f"model.layers.{number - 1}.mlp.up_proj.weight"] = np.ones((INNER, HIDDEN), np.float16)
        if size:
            noise = np.random.default_rng(number).integers(0, 255, size, np.uint8, endpoint=True)
            part[f"model.layers.{number - 1}.mlp.down_proj.weight"] = noise.reshape(-1, 1024)
        name = "model.safetensors" if shards == 1 else f"model-{number:05d}-of-{shards:05d}.safetensors"
        files[name] = save(part)
        weight_map.update(dict.fromkeys(part, name))
    if shards > 1:
        files["model.safetensors.index.json"] = json.dumps({"weight_map": weight_map}).encode()
    return files


def tar(files: dict[str, bytes], top: str = "") -> bytes:
    """Return a tar of the files, below the directory ``top``."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path, data in files.items():
            member = tarfile.TarInfo(f"{top}/{path}" if top else path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def readers(files: dict[str, bytes]) -> Files:
    """Return files in memory as header readers take them."""
    return {path: partial(MemoryReader, data) for path, data in files.items()}
