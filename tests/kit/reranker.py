"""A tiny cross-encoder as a GGUF file: an encoder of one layer with a head that scores a document.

Its weights are made by dice that always fall the same, so its scores mean nothing but differ by document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import gguf
import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

WIDTH, INNER, HEADS, CONTEXT = 64, 128, 4, 512
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_WORDS = ("ping", "a", "cat", "sits", "on", "the", "mat", "law", "of", "torts")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_BEGINNING = "\u2581"
TOKENS = [
    *_SPECIAL,
    *(f"{_BEGINNING}{word}" for word in dict.fromkeys((*_WORDS, *_LETTERS))),
    *_LETTERS,
]
_EPSILON = 1e-12


def make(target: Path) -> Path:
    """Write the model and return its path."""
    writer = gguf.GGUFWriter(target, "bert")
    _describe(writer)
    _tokenize(writer)
    dice = np.random.default_rng(1)
    for name, shape in _tensors().items():
        norm = name.endswith("_norm.weight")
        drawn = np.ones(shape) if norm else dice.normal(0, 0.2, shape)
        writer.add_tensor(name, drawn.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def _describe(writer: gguf.GGUFWriter) -> None:
    writer.add_name("reranker")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_block_count(1)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(_EPSILON)
    writer.add_causal_attention(value=False)
    writer.add_pooling_type(gguf.PoolingType.RANK)


def _tokenize(writer: gguf.GGUFWriter) -> None:
    kinds = [gguf.TokenType.CONTROL] * len(_SPECIAL)
    kinds += [gguf.TokenType.NORMAL] * (len(TOKENS) - len(_SPECIAL))
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(TOKENS)
    writer.add_token_types(kinds)
    writer.add_token_type_count(2)
    ids = {token: TOKENS.index(token) for token in _SPECIAL}
    writer.add_pad_token_id(ids["[PAD]"])
    writer.add_unk_token_id(ids["[UNK]"])
    writer.add_bos_token_id(ids["[CLS]"])
    writer.add_eos_token_id(ids["[SEP]"])
    writer.add_sep_token_id(ids["[SEP]"])
    writer.add_mask_token_id(ids["[MASK]"])


def _tensors() -> dict[str, tuple[int, ...]]:
    square, row = (WIDTH, WIDTH), (WIDTH,)
    found: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (len(TOKENS), WIDTH),
        "token_types.weight": (2, WIDTH),
        "position_embd.weight": (CONTEXT, WIDTH),
        "token_embd_norm.weight": row,
        "token_embd_norm.bias": row,
    }
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        found |= {f"blk.0.{name}.weight": square, f"blk.0.{name}.bias": row}
    found |= {"blk.0.ffn_up.weight": (INNER, WIDTH), "blk.0.ffn_up.bias": (INNER,)}
    found |= {"blk.0.ffn_down.weight": (WIDTH, INNER), "blk.0.ffn_down.bias": row}
    for name in ("attn_output_norm", "layer_output_norm"):
        found |= {f"blk.0.{name}.weight": row, f"blk.0.{name}.bias": row}
    found |= {"cls.weight": square, "cls.bias": row}
    return found | {"cls.output.weight": (1, WIDTH), "cls.output.bias": (1,)}
