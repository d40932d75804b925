"""Our Safetensors reader against the format's own library, on random files."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError
from safetensors import deserialize as untyped
from safetensors.numpy import save

from modelkit.errors import Damaged, NotAModel, NotServed
from modelkit.formats import safetensors as ours
from modelkit.formats import weights as weights_module
from modelkit.formats.quantization import NONE
from modelkit.formats.weights import Weights
from modelkit.reading import MemoryReader

DTYPES = [
    np.float32,
    np.float16,
    np.float64,
    np.int8,
    np.uint8,
    np.int16,
    np.int32,
    np.int64,
    np.uint64,
    np.bool_,
]
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=30).filter(
    lambda name: name != ours.METADATA and name.rpartition(".")[2] not in weights_module._NAMED
)
TENSORS = st.dictionaries(
    NAMES, st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 5), max_size=4)), max_size=12
)


def deserialize(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = untyped(data)  # type: ignore[no-untyped-call]
    return found


def built(described: dict[str, Any], metadata: dict[str, str] | None) -> bytes:
    return save({name: np.zeros(shape, dtype) for name, (dtype, shape) in described.items()}, metadata)


def read(data: bytes) -> list[ours.Batch]:
    return list(ours.tensors(MemoryReader(data), "m.safetensors"))


def by_name(found: list[ours.Batch]) -> dict[str, ours.Form]:
    return {name: form for batch in found for form, names in batch.items() for name in names}


@settings(max_examples=150, deadline=None)
@given(
    described=TENSORS,
    metadata=st.none() | st.dictionaries(st.text(max_size=20), st.text(max_size=20), min_size=1, max_size=4),
)
def test_reads_what_the_library_wrote(described: dict[str, Any], metadata: dict[str, str] | None) -> None:
    data = built(described, metadata)
    theirs = {name: (one["dtype"], tuple(one["shape"]), len(one["data"])) for name, one in deserialize(data)}
    found = read(data)
    assert {name: (*form, ours.byte_size(*form)) for name, form in by_name(found).items()} == theirs
    weights = Weights()
    weights.add(found)
    assert weights.tensor_count == len(theirs)
    assert weights.weight_bytes == sum(size for _, _, size in theirs.values())
    counted = weights.parameters(NONE, tied=None)
    assert counted is not None
    assert counted[0] == sum(int(np.prod(shape)) for _, shape in described.values())


@settings(max_examples=60, deadline=None)
@given(described=TENSORS.filter(bool), piece=st.integers(64, 600), window=st.integers(64, 2000))
def test_a_header_read_in_pieces_is_the_same_header(
    described: dict[str, Any], piece: int, window: int
) -> None:
    data = built(described, {"a},": "b},"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ours, "PIECE", piece)
        patch.setattr(ours, "WINDOW", window)
        in_pieces = by_name(read(data))
    assert in_pieces == by_name(read(data))


def with_header(header: dict[str, Any] | str, size: int) -> bytes:
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack("<Q", len(text)) + text + bytes(size)


BAD: dict[str, tuple[Any, int]] = {
    "overlap": (
        {
            "a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
            "b": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]},
        },
        6,
    ),
    "gap": (
        {
            "a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
            "b": {"dtype": "U8", "shape": [2], "data_offsets": [4, 6]},
        },
        6,
    ),
    "rest": ({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}, 6),
    "cut off": ({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}, 1),
    "size": ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, 4),
    "backwards": ({"a": {"dtype": "U8", "shape": [2], "data_offsets": [2, 0]}}, 2),
    "negative side": ({"a": {"dtype": "U8", "shape": [-2, -1], "data_offsets": [0, 2]}}, 2),
    "no dtype": ({"a": {"shape": [2], "data_offsets": [0, 2]}}, 2),
    "no json": ("{nonsense", 0),
    "list": ('{"a": [1, 2]}', 0),
}


@pytest.mark.parametrize("name", BAD)
def test_what_the_library_refuses_is_refused(name: str) -> None:
    data = with_header(*BAD[name])
    with pytest.raises(SafetensorError):
        deserialize(data)
    with pytest.raises(Damaged) as caught:
        read(data)
    assert caught.value.where == "m.safetensors"


def test_a_type_of_the_future_is_named() -> None:
    data = with_header({"a": {"dtype": "F2", "shape": [4], "data_offsets": [0, 1]}}, 1)
    with pytest.raises(NotServed, match="F2"):
        read(data)


@pytest.mark.parametrize("data", [b"", b"\x08\0\0\0\0\0\0\0", b"GGUF" + bytes(100), bytes(16)])
def test_other_files_are_no_model(data: bytes) -> None:
    with pytest.raises(NotAModel):
        read(data)


def test_a_header_longer_than_the_file_is_cut_off() -> None:
    with pytest.raises(Damaged, match="the file ends at 12"):
        read(struct.pack("<Q", 1 << 60) + b"{" + bytes(3))


def test_tensors_out_of_order_are_put_in_order() -> None:
    header = {
        "b": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]},
        "a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
    }
    assert read(with_header(header, 6)) == [{("U8", (4,)): ["b"], ("U8", (2,)): ["a"]}]
