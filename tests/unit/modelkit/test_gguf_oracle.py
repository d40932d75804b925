"""Our GGUF reader against the format's own library, on random files."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelkit.formats import gguf as ours
from modelkit.formats.gguf import ArrayValue
from modelkit.formats.gguf_tables import FILE_TYPES, TENSOR_TYPES
from modelkit.reading import LocalFile

Type = gguf.GGUFValueType
QUANTS = [
    gguf.GGMLQuantizationType(number)
    for number in TENSOR_TYPES
    if gguf.GGMLQuantizationType(number).name
    in {"F32", "F16", "BF16", "Q4_0", "Q8_0", "Q4_K", "Q6_K", "IQ4_XS", "MXFP4"}
]
KEYS = st.from_regex(r"[a-z]{1,8}\.[a-z_]{1,12}", fullmatch=True)
TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
INTEGERS = {
    Type.UINT8: (0, 2**8 - 1),
    Type.INT8: (-(2**7), 2**7 - 1),
    Type.UINT16: (0, 2**16 - 1),
    Type.INT16: (-(2**15), 2**15 - 1),
    Type.UINT32: (0, 2**32 - 1),
    Type.INT32: (-(2**31), 2**31 - 1),
    Type.UINT64: (0, 2**64 - 1),
    Type.INT64: (-(2**63), 2**63 - 1),
}


@st.composite
def values(draw: st.DrawFn) -> tuple[Type, Type | None, Any]:
    kind = draw(st.sampled_from([*INTEGERS, Type.FLOAT32, Type.FLOAT64, Type.BOOL, Type.STRING, Type.ARRAY]))
    if kind is Type.ARRAY:
        inner = draw(st.sampled_from([Type.INT32, Type.FLOAT32, Type.STRING, Type.BOOL]))
        items = {
            Type.INT32: st.integers(-(2**31), 2**31 - 1),
            Type.FLOAT32: st.floats(width=32, allow_nan=False),
            Type.STRING: TEXT,
            Type.BOOL: st.booleans(),
        }[inner]
        return kind, inner, draw(st.lists(items, min_size=1, max_size=30))
    if kind in INTEGERS:
        return kind, None, draw(st.integers(*INTEGERS[kind]))
    if kind is Type.STRING:
        return kind, None, draw(TEXT)
    if kind is Type.BOOL:
        return kind, None, draw(st.booleans())
    return kind, None, draw(st.floats(width=32, allow_nan=False))


@st.composite
def tensors(draw: st.DrawFn) -> tuple[gguf.GGMLQuantizationType, tuple[int, ...]]:
    quant = draw(st.sampled_from(QUANTS))
    block = gguf.GGML_QUANT_SIZES[quant][0]
    outer = draw(st.lists(st.integers(1, 4), max_size=3))
    return quant, (*outer, block * draw(st.integers(1, 3)))


def write(path: Path, metadata: dict[str, Any], described: dict[str, Any], alignment: int) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_custom_alignment(alignment)
    for key, (kind, inner, value) in metadata.items():
        writer.add_key_value(key, value, kind, sub_type=inner)
    for name, (quant, shape) in described.items():
        count = math.prod(shape)
        block, size = gguf.GGML_QUANT_SIZES[quant]
        raw = np.zeros(count // block * size, np.uint8)
        if quant is gguf.GGMLQuantizationType.F32:
            writer.add_tensor(name, raw.view(np.float32).reshape(shape))
        elif quant is gguf.GGMLQuantizationType.F16:
            writer.add_tensor(name, raw.view(np.float16).reshape(shape))
        else:
            rows = (*shape[:-1], shape[-1] // block * size)
            writer.add_tensor(name, raw.reshape(rows), raw_dtype=quant)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(
    metadata=st.dictionaries(KEYS.filter(lambda key: not key.startswith("general.")), values(), max_size=12),
    described=st.dictionaries(
        st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20),
        tensors(),
        max_size=10,
    ),
    alignment=st.sampled_from([8, 32, 64, 256]),
)
def test_reads_what_the_library_wrote(
    metadata: dict[str, Any], described: dict[str, Any], alignment: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.gguf"
        write(path, metadata, described, alignment)
        header = ours.read_header(LocalFile(str(path)), "m.gguf")
        oracle = gguf.GGUFReader(path)
        for key, (kind, inner, value) in metadata.items():
            found = header.metadata[key]
            if kind is Type.ARRAY:
                assert isinstance(found, ArrayValue)
                assert found.length == len(value) == len(oracle.fields[key].data)
                assert inner is Type.STRING or list(found.items) == value
            else:
                assert found == value
                assert found == oracle.fields[key].contents()
        theirs = {tensor.name: tensor for tensor in oracle.tensors}
        assert {tensor.name for tensor in header.tensors} == set(theirs)
        for tensor in header.tensors:
            their = theirs[tensor.name]
            assert tensor.dtype == their.tensor_type.name
            assert tensor.shape == tuple(int(side) for side in their.shape)
            assert (tensor.elements, tensor.size) == (their.n_elements, their.n_bytes)
            assert header.data_start + tensor.offset == their.data_offset
        del oracle, theirs


def test_tables_are_the_librarys() -> None:
    assert {
        kind.value: (kind.name, *gguf.GGML_QUANT_SIZES[kind]) for kind in gguf.GGMLQuantizationType
    } == TENSOR_TYPES
    assert {
        kind.value: kind.name.removeprefix("MOSTLY_").removeprefix("ALL_")
        for kind in gguf.LlamaFileType
        if kind is not gguf.LlamaFileType.GUESSED
    } == FILE_TYPES
