"""Safetensors headers and the index of a sharded checkpoint: descriptions of tensors, never their data.

A header is JSON of a stated length. It is decoded in pieces, so that one of more than a hundred megabytes
(they exist) takes little memory; each tensor has to have the size of its shape, and together they have to
cover the data without gap or overlap.
"""

from __future__ import annotations

import re
from math import prod
from struct import Struct
from typing import TYPE_CHECKING

import msgspec

from modelkit.errors import Damaged, NotAModel, NotServed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelkit.reading import RangeReader

HEADER_LIMIT = 256 << 20
INDEX_LIMIT = 32 << 20
#: an index takes much more memory decoded: so many of its names are read
INDEX_NAMES = 1 << 20
TENSOR_LIMIT = 4 << 20
#: a header is read in windows, and decoded in pieces that a processor's cache holds
WINDOW = 1 << 20
PIECE = 128 << 10
#: a single description longer than this is no tensor's
_LARGEST_ENTRY = 4 << 20
#: tensors out of the order of their data are put in order up to this many
_SORTED_TENSORS = 1 << 18
_DIMENSIONS = 64
_BOUNDARY_TRIES = 10_000
_BOUNDARIES = 4
_LENGTH = Struct("<Q")
_BOUNDARY = re.compile(rb"\}\s*,\s*\"")
METADATA = "__metadata__"

#: type -> bits of one element
TYPES: dict[str, int] = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
_SHARD = re.compile(r"(?P<stem>.*)-(?P<number>\d{5,6})-of-(?P<count>\d{5,6})\.safetensors\Z", re.DOTALL)


class _Entry(msgspec.Struct, gc=False):
    dtype: str | None = None
    shape: tuple[int, ...] = ()
    data_offsets: tuple[int, int] | None = None


#: type and shape of a tensor
Form = tuple[str, tuple[int, ...]]
#: the names of tensors by their form, which is what many of them share: checkpoints have a hundred thousand
Batch = dict[Form, list[str]]


class _Index(msgspec.Struct, frozen=True):
    weight_map: dict[str, str]


def shard_of(name: str) -> tuple[str, int, int] | None:
    """Return stem, number and count that a file name such as ``model-00001-of-00003.safetensors`` states."""
    match = _SHARD.match(name)
    if match is None or not int(match["count"]):
        return None
    return match["stem"], int(match["number"]), int(match["count"])


def read_index(data: bytes, where: str) -> dict[str, str]:
    """Return the map from tensor to file of a sharded checkpoint."""
    if len(data) > INDEX_LIMIT:
        raise NotServed(where, f"an index of {len(data)} bytes, at most {INDEX_LIMIT} are read")
    if data.count(b":") > INDEX_NAMES:
        raise NotServed(where, f"an index of more than {INDEX_NAMES} tensors is not read")
    try:
        return msgspec.json.decode(data, type=_Index).weight_map
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Damaged(where, f"no index of a sharded checkpoint: {error}") from error


def tensors(reader: RangeReader, where: str) -> Iterator[Batch]:
    """Yield the tensors of a file, some at a time; the layout as a whole is judged after the last ones.

    Raises:
        NotAModel: the file is no Safetensors file or is damaged; the text says where.
    """
    length = _header_length(reader, where)
    layout = _Layout(where, reader.size - _LENGTH.size - length)
    for entries in _pieces(reader, where, length):
        yield _grouped(entries, layout, where)
    layout.close()


def _grouped(entries: dict[str, _Entry], layout: _Layout, where: str) -> Batch:
    """Return the names by form, each description judged: once for its form, and by its place."""
    found: Batch = {}
    groups: dict[tuple[str | None, tuple[int, ...]], tuple[int, list[str]]] = {}
    for name, entry in entries.items():
        form, offsets = (entry.dtype, entry.shape), entry.data_offsets
        group = groups.get(form)
        if group is None:
            if entry.dtype is None and name == METADATA:
                continue
            size = byte_size(entry.dtype, entry.shape)
            if size is None or entry.dtype is None:
                raise _wrong(where, name, entry)
            group = groups[form] = size, found.setdefault((entry.dtype, entry.shape), [])
        size, names = group
        if offsets is None or offsets[1] - offsets[0] != size:
            raise _wrong(where, name, entry)
        layout.add(name, offsets)
        names.append(name)
    return found


def byte_size(dtype: str | None, shape: tuple[int, ...]) -> int | None:
    """Return how many bytes a tensor takes; nothing when there can be no such tensor."""
    bits = TYPES.get(dtype or "")
    if bits is None or len(shape) > _DIMENSIONS or min(shape, default=0) < 0:
        return None
    size, rest = divmod(prod(shape) * bits, 8)
    return None if rest else size


def _wrong(where: str, name: str, entry: _Entry) -> NotAModel:
    """Return what is wrong with a description."""
    shown = f"tensor {name[:100]!a}"
    if entry.dtype is None or entry.data_offsets is None:
        return Damaged(where, f"{shown} lacks its type or its place")
    if entry.dtype not in TYPES:
        return NotServed(where, f"{shown} has type {entry.dtype[:20]!a}, which is not known")
    start, end = entry.data_offsets
    return Damaged(where, f"{shown} of shape {list(entry.shape)[:8]} does not take {end - start} bytes")


def _header_length(reader: RangeReader, where: str) -> int:
    head = reader.read_at(0, _LENGTH.size + 1)
    if len(head) <= _LENGTH.size:
        raise NotAModel(where, f"{reader.size} bytes are too few for a Safetensors file")
    length = int(_LENGTH.unpack_from(head)[0])
    if head[_LENGTH.size :] != b"{":
        raise NotAModel(where, "offset 8: no Safetensors header begins here")
    if length > reader.size - _LENGTH.size:
        raise Damaged(where, f"the header should have {length} bytes, but the file ends at {reader.size}")
    if length > HEADER_LIMIT:
        raise NotServed(where, f"a header of {length} bytes, at most {HEADER_LIMIT} are read")
    return length


def _windows(reader: RangeReader, where: str, length: int) -> Iterator[tuple[bytes, int]]:
    """Yield the header's text, some at a time, and where in the file it ends."""
    offset, end = _LENGTH.size, _LENGTH.size + length
    while offset < end:
        window = reader.read_at(offset, min(WINDOW, end - offset))
        if not window:
            raise Damaged(where, f"offset {offset}: the file became shorter while it was read")
        for start in range(0, len(window), PIECE):
            piece = window[start : start + PIECE]
            yield piece, offset + start + len(piece)
        offset += len(window)


def _pieces(reader: RangeReader, where: str, length: int) -> Iterator[dict[str, _Entry]]:
    """Decode the header in pieces that end between two tensors."""
    rest, useless = b"", 0
    for text, offset in _windows(reader, where, length):
        rest += text
        if offset == _LENGTH.size + length:
            yield _decode(rest, where, offset)
            return
        if len(rest) > _LARGEST_ENTRY:
            raise Damaged(
                where, f"offset {offset}: one tensor's description is longer than {_LARGEST_ENTRY} bytes"
            )
        if len(rest) < min(2 * useless, _LARGEST_ENTRY - PIECE):
            continue  # a long description is tried a few times, not at every piece of it
        useless = len(rest)
        for end_of_entry, next_name in _boundaries(rest):
            entries = _try_decode(rest[:end_of_entry] + b"}")
            if entries is not None:
                rest, useless = b"{" + rest[next_name:], 0
                yield entries
                break


def _boundaries(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield where a description ends and where the next name begins, from the last one backwards.

    A name may look like a boundary, hence more than one; a damaged header has none that works, hence few.
    """
    at, found = len(text), 0
    for _ in range(_BOUNDARY_TRIES):
        at = text.rfind(b"}", 0, at)
        if at < 0 or found == _BOUNDARIES:
            return
        match = _BOUNDARY.match(text, at)
        if match is not None:
            found += 1
            yield at + 1, match.end() - 1


def _try_decode(piece: bytes) -> dict[str, _Entry] | None:
    try:
        return _DECODER.decode(piece)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def _decode(piece: bytes, where: str, offset: int) -> dict[str, _Entry]:
    try:
        return _DECODER.decode(piece)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Damaged(where, f"the header before offset {offset} cannot be read: {error}") from error


_DECODER = msgspec.json.Decoder(dict[str, _Entry])


class _Layout:
    """Checks that the tensors cover the data exactly, in whatever order the header lists them."""

    def __init__(self, where: str, size: int) -> None:
        self._where = where
        self._size = size
        self._end = 0
        self._count = 0
        self._later: list[tuple[int, int]] = []

    def add(self, name: str, offsets: tuple[int, int]) -> None:
        """Take one tensor; most headers are in order, so most need no memory."""
        start, end = offsets
        self._count += 1
        if self._count > TENSOR_LIMIT:
            raise NotServed(self._where, f"more than {TENSOR_LIMIT} tensors are not read")
        if end > self._size:
            raise Damaged(
                self._where,
                f"tensor {name[:100]!a} ends at {end} of the data, which has {self._size} bytes; "
                "the file is cut off, copy it again",
            )
        if start == self._end and not self._later:
            self._end = end
        elif len(self._later) < _SORTED_TENSORS:
            self._later.append((start, end))
        else:
            raise NotServed(self._where, f"more than {_SORTED_TENSORS} tensors out of order are not read")

    def close(self) -> None:
        """Judge the whole."""
        for start, end in sorted(self._later):
            if start != self._end:
                what = "overlap" if start < self._end else "leave a gap"
                raise Damaged(self._where, f"tensors {what} at {min(start, self._end)} of the data")
            self._end = end
        if self._end != self._size:
            raise Damaged(
                self._where, f"the tensors end at {self._end} of the data, which has {self._size} bytes"
            )
