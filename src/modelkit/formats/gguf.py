"""GGUF headers, versions 2 and 3: metadata and tensor descriptions, never tensor data.

Every count and length in the header comes from outside; each has a limit, and each tensor has to lie inside
the file. Arrays are counted and passed over, except short numeric ones.
"""

from __future__ import annotations

import re
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from modelkit.errors import Damaged, NotAModel, NotServed
from modelkit.formats.cursor import Cursor
from modelkit.formats.gguf_tables import TENSOR_TYPES

if TYPE_CHECKING:
    from modelkit.reading import RangeReader

MAGIC = b"GGUF"
HEADER_LIMIT = 64 << 20
KEY_LIMIT = 1 << 16
KEY_COUNT_LIMIT = 1 << 14
TENSOR_LIMIT = 1 << 16
NESTING_LIMIT = 3
#: bytes of all keys and tensor names together, and of the text values that are kept
NAMES_LIMIT = 8 << 20
KEPT_TEXT = 1 << 20
KEPT_TEXTS = 2 << 20
#: numeric arrays up to this many items are kept: one number per layer
KEPT_ITEMS = 1024
_KEPT_ARRAYS = 256
_NESTED_ARRAYS = 1 << 14
_DIMENSIONS = 4
_LARGEST_SIZE = 1 << 62
_LARGEST_ALIGNMENT = 1 << 20

_ARRAY, _STRING, _BOOL = 9, 8, 7
_SCALARS = {
    0: Struct("<B"),
    1: Struct("<b"),
    2: Struct("<H"),
    3: Struct("<h"),
    4: Struct("<I"),
    5: Struct("<i"),
    6: Struct("<f"),
    7: Struct("<?"),
    10: Struct("<Q"),
    11: Struct("<q"),
    12: Struct("<d"),
}
_SHARD = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf\Z", re.IGNORECASE | re.DOTALL)

Scalar = bool | int | float | str


class ArrayValue(NamedTuple):
    """An array of the metadata: how many items, and the items of short numeric ones."""

    length: int
    items: tuple[bool | int | float, ...] = ()


class Tensor(NamedTuple):
    """One tensor: shape in the file's order (fastest first), bytes of its data and where they begin."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    elements: int
    size: int
    offset: int


class GgufHeader(NamedTuple):
    """Everything in front of the tensor data."""

    version: int
    metadata: dict[str, Scalar | ArrayValue]
    tensors: list[Tensor]
    data_start: int

    def text(self, key: str) -> str | None:
        """Return a string of the metadata."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) else None

    def number(self, key: str) -> int | None:
        """Return an integer of the metadata; nothing when it is another type or below zero."""
        value = self.metadata.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

    def flag(self, key: str) -> bool | None:
        """Return a boolean of the metadata."""
        value = self.metadata.get(key)
        return value if isinstance(value, bool) else None


class Shard(NamedTuple):
    """Place of a file in a model that is split over several."""

    stem: str
    number: int
    of: int


def shard_of(name: str) -> Shard | None:
    """Return the place that a file name such as ``m-00001-of-00003.gguf`` states."""
    match = _SHARD.match(name)
    if match is None or not int(match["count"]):
        return None
    return Shard(match["stem"], int(match["number"]), int(match["count"]))


def read_header(reader: RangeReader, where: str) -> GgufHeader:
    """Read and check the header.

    Raises:
        NotAModel: the file is no GGUF file of a version that is read, or is damaged; the text says where.
    """
    cursor = Cursor(reader, where, HEADER_LIMIT)
    if reader.size < len(MAGIC) or cursor.take(len(MAGIC)) != MAGIC:
        raise NotAModel(where, "offset 0: does not begin with GGUF")
    version = cursor.u32()
    if version not in (2, 3):
        raise _version_error(cursor.where, version)
    tensor_count, key_count = cursor.u64(), cursor.u64()
    if tensor_count > TENSOR_LIMIT or key_count > KEY_COUNT_LIMIT:
        raise cursor.damaged(f"{tensor_count} tensors and {key_count} keys are more than any model has")
    budget = _Budget()
    metadata = _read_metadata(cursor, key_count, budget)
    alignment = metadata.get("general.alignment", 32)
    if (
        not isinstance(alignment, int)
        or not 0 < alignment <= _LARGEST_ALIGNMENT
        or alignment & (alignment - 1)
    ):
        raise cursor.damaged(f"general.alignment {alignment!r} is no power of two")
    described = [_read_tensor(cursor, budget) for _ in range(tensor_count)]
    start = cursor.offset + -cursor.offset % alignment
    _check_layout(described, where, start, reader.size, alignment)
    return GgufHeader(version, metadata, described, start)


def _version_error(where: str, version: int) -> NotAModel:
    if version == 1:
        return NotServed(where, "GGUF version 1 is no longer read; convert the model again")
    if version in (2 << 24, 3 << 24):
        return NotServed(where, "big-endian GGUF is not taken; convert the model for little-endian machines")
    return Damaged(where, f"offset 4: GGUF version {version} is unknown, versions 2 and 3 are read")


class _Budget:
    """What may still be kept of a header whose author is unknown."""

    def __init__(self) -> None:
        self.names = NAMES_LIMIT
        self.texts = KEPT_TEXTS
        self.arrays = _KEPT_ARRAYS
        self.nested = _NESTED_ARRAYS


def _name(cursor: Cursor, budget: _Budget, what: str) -> str:
    name = cursor.text(KEY_LIMIT, what)
    budget.names -= len(name)
    if budget.names < 0:
        raise cursor.damaged(f"keys and tensor names take more than {NAMES_LIMIT} bytes")
    return name


def _read_metadata(cursor: Cursor, count: int, budget: _Budget) -> dict[str, Scalar | ArrayValue]:
    metadata: dict[str, Scalar | ArrayValue] = {}
    for _ in range(count):
        key = _name(cursor, budget, "key")
        if key in metadata:
            raise cursor.damaged(f"key {key[:100]!a} stands twice")
        kind = cursor.u32()
        if kind == _ARRAY:
            metadata[key] = _read_array(cursor, 1, budget)
        elif kind == _STRING:
            metadata[key] = _read_text(cursor, budget)
        elif (scalar := _SCALARS.get(kind)) is not None:
            metadata[key] = scalar.unpack(cursor.take(scalar.size))[0]
        else:
            raise cursor.damaged(f"key {key[:100]!a} has the unknown type {kind}")
    return metadata


def _read_text(cursor: Cursor, budget: _Budget) -> str | ArrayValue:
    """Return a text value; one that is too large to keep is passed over and stands as its length."""
    length = cursor.u64()
    if length > min(KEPT_TEXT, budget.texts):
        cursor.skip(length)
        return ArrayValue(length)
    budget.texts -= length
    return cursor.take(length).decode(errors="replace")


def _read_array(cursor: Cursor, depth: int, budget: _Budget) -> ArrayValue:
    kind, length = cursor.u32(), cursor.u64()
    scalar = _SCALARS.get(kind)
    if scalar is not None:
        if length <= KEPT_ITEMS and budget.arrays > 0:
            budget.arrays -= 1
            raw = cursor.take(length * scalar.size)
            return ArrayValue(length, tuple(one for (one,) in scalar.iter_unpack(raw)))
        cursor.skip(length * scalar.size)
    elif length > HEADER_LIMIT:
        raise cursor.damaged(f"an array of {length} items cannot fit")
    elif kind == _STRING:
        cursor.skip_texts(length)
    elif kind == _ARRAY and depth < NESTING_LIMIT and length <= budget.nested:
        budget.nested -= length
        for _ in range(length):
            _read_array(cursor, depth + 1, budget)
    else:
        raise cursor.damaged(f"{length} array items of type {kind} at depth {depth} are not read")
    return ArrayValue(length)


def _read_tensor(cursor: Cursor, budget: _Budget) -> Tensor:
    name = _name(cursor, budget, "tensor name")
    dimensions = cursor.u32()
    if dimensions > _DIMENSIONS:
        raise cursor.damaged(f"tensor {name[:100]!a} has {dimensions} dimensions, at most {_DIMENSIONS}")
    shape = tuple(cursor.u64() for _ in range(dimensions))
    kind = cursor.u32()
    known = TENSOR_TYPES.get(kind)
    if known is None:
        raise cursor.damaged(f"tensor {name[:100]!a} has type {kind}, which this version does not know")
    dtype, block, block_bytes = known
    elements = 1
    for length in shape:
        elements *= length
    if elements > _LARGEST_SIZE or (shape[0] if shape else 1) % block:
        raise cursor.damaged(f"tensor {name[:100]!a} of shape {list(shape)} cannot be {dtype}")
    return Tensor(name, dtype, shape, elements, elements // block * block_bytes, cursor.u64())


def _check_layout(tensors: list[Tensor], where: str, start: int, size: int, alignment: int) -> None:
    """Each tensor lies inside the file, aligned, under its own name, and no two share bytes."""
    end = 0
    seen: set[str] = set()
    for tensor in sorted(tensors, key=lambda one: (one.offset, one.size)):
        if tensor.name in seen:
            raise Damaged(where, f"tensor {tensor.name[:100]!a} stands twice")
        seen.add(tensor.name)
        if tensor.offset % alignment:
            raise Damaged(
                where,
                f"tensor {tensor.name[:100]!a} begins at {tensor.offset}, not a multiple of {alignment}",
            )
        if tensor.offset < end:
            raise Damaged(where, f"tensor {tensor.name[:100]!a} overlaps the one before it")
        end = tensor.offset + tensor.size
        if start + end > size:
            raise Damaged(
                where,
                f"tensor {tensor.name[:100]!a} ends at {start + end}, but the file ends at {size}; "
                "it is cut off, copy it again",
            )
