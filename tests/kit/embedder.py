"""An embedding model made of the demo's language model: the same tensors under a header that says so.

How vectors are pooled is told, as in the GGUF files of embedding models that were made from language models;
there is no chat template in it. The entry takes the place of the tags, so that no tensor moves.
"""

from __future__ import annotations

import mmap
import shutil
import struct
from typing import TYPE_CHECKING

import gguf

from tools.demo import gemma

if TYPE_CHECKING:
    from pathlib import Path

ARCHITECTURE = "gemma3"
DIMENSIONS = 640
_TAGS = "general.tags"
#: where the number of entries stands: after magic, version and the number of tensors
_COUNT = 16
_Type = gguf.GGUFValueType
_TEXTS = struct.Struct("<IIQ")
_TEXT = struct.Struct("<IQ")


def make(target: Path) -> Path:
    """Write the model and return its path."""
    shutil.copyfile(gemma.fetch(), target)
    with target.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        start = data.find(_key(_TAGS))
        at = start + len(_key(_TAGS))
        *kinds, texts = _TEXTS.unpack_from(data, at)
        assert (start > 0, kinds) == (True, [_Type.ARRAY, _Type.STRING])
        end = at + _TEXTS.size
        for _ in range(texts):
            (length,) = struct.unpack_from("<Q", data, end)
            end += 8 + length
        pooling = struct.pack("<II", _Type.UINT32, gguf.PoolingType.LAST)
        told = _key(f"{ARCHITECTURE}.pooling_type") + pooling + _key("general.description")
        rest = end - start - len(told) - _TEXT.size
        assert rest >= 0
        data[start:end] = told + _TEXT.pack(_Type.STRING, rest) + b" " * rest
        (count,) = struct.unpack_from("<Q", data, _COUNT)
        struct.pack_into("<Q", data, _COUNT, count + 1)
    return target


def _key(name: str) -> bytes:
    return struct.pack("<Q", len(name)) + name.encode()
