"""Tar archives over ranges: which files lie where, judged before a byte of them is used; tars of our own.

Nothing is ever extracted to find out. Only regular files and directories pass, names are made safe or else
refused, counts and lengths have limits. What is written is reproducible: fixed owner, mode and time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from modelkit import names
from modelkit.errors import Damaged, NotServed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from modelkit.reading import RangeReader

BLOCK = 512
MEMBER_LIMIT = 100_000
#: bytes of one extended header, and of all of them
EXTENDED_LIMIT = 1 << 20
EXTENDED_TOTAL = 64 << 20

_DIRECTORY, _EXTENDED, _GLOBAL, _LONG_NAME, _LONG_LINK = b"5", b"x", b"g", b"L", b"K"
_KINDS = {b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"6": "a pipe"}
_SIZE_FIELD, _SUM_FIELD, _TYPE_FIELD = slice(124, 136), slice(148, 156), slice(156, 157)
_LARGEST = 1 << 62
_USTAR_NAME = 100
_LENGTH_DIGITS = 9
_DECIMAL = re.compile(r"[0-9]{1,19}\Z")


class Member(NamedTuple):
    """One file of an archive: its safe path, and where its bytes lie."""

    path: str
    start: int
    size: int


class _Entry(NamedTuple):
    raw_name: str
    kind: bytes
    start: int
    size: int


def members(reader: RangeReader, where: str) -> list[Member]:
    """Return the files of an uploaded tar, hidden ones left out, a common top directory taken off.

    Raises:
        NotAModel: the archive is damaged or holds something that could harm a reader; the text says what.
    """
    found = [member for member in _files(reader, where) if not is_hidden(member.path)]
    prefix = common_top([member.path for member in found])
    return _distinct([member._replace(path=member.path[len(prefix) :]) for member in found], where)


def layer_members(reader: RangeReader, where: str) -> list[Member]:
    """Return the files of a published tar layer, all of them and under their own names.

    Raises:
        NotAModel: as for ``members``.
    """
    return _distinct(list(_files(reader, where)), where)


def _files(reader: RangeReader, where: str) -> Iterator[Member]:
    for entry in _entries(reader, where):
        if entry.kind == _DIRECTORY:
            continue
        try:
            path = names.file_path(entry.raw_name)
        except names.BadName as error:
            raise Damaged(where, str(error)) from error
        yield Member(path, entry.start, entry.size)


def _distinct(found: list[Member], where: str) -> list[Member]:
    try:
        names.distinct([member.path for member in found])
    except names.BadName as error:
        raise Damaged(where, str(error)) from error
    return found


def is_hidden(path: str) -> bool:
    """Say whether a path is one that systems leave behind: hidden, or of the macOS archiver."""
    return any(part.startswith(".") or part == "__MACOSX" for part in path.split("/"))


def common_top(paths: Sequence[str]) -> str:
    """Return the single top directory (with its slash) that all paths lie in, else nothing."""
    tops = {path.partition("/")[:2] for path in paths}
    if len(tops) == 1:
        top, slash = tops.pop()
        if slash:
            return top + slash
    return ""


def _entries(reader: RangeReader, where: str) -> Iterator[_Entry]:
    """Walk the headers; extended headers are applied to the entry that follows them."""
    offset, extended_left, count = 0, EXTENDED_TOTAL, 0
    pending: dict[str, str] = {}
    while True:
        block = reader.read_at(offset, BLOCK)
        if len(block) < BLOCK:
            raise Damaged(where, f"offset {offset}: the archive ends without its end mark; it is cut off")
        if not block.strip(b"\0"):
            return
        entry = _header(block, offset, where, pending)
        if entry.start + entry.size > reader.size:
            raise Damaged(
                where,
                f"{entry.raw_name[:100]!a} ends at {entry.start + entry.size}, the archive at {reader.size}",
            )
        offset = entry.start + _padded(entry.size)
        count += 1
        if count > MEMBER_LIMIT:
            raise NotServed(where, f"more than {MEMBER_LIMIT} entries are not taken")
        if entry.kind in {_EXTENDED, _GLOBAL, _LONG_NAME, _LONG_LINK}:
            extended_left -= entry.size
            if entry.size > EXTENDED_LIMIT or extended_left < 0:
                raise Damaged(where, f"offset {entry.start}: an extended header of {entry.size} bytes")
            _extend(reader.read_at(entry.start, entry.size), entry, where, pending)
            continue
        pending.clear()
        _check_kind(entry, where)
        yield entry


def _header(block: bytes, offset: int, where: str, pending: dict[str, str]) -> _Entry:
    stated = _number(block[_SUM_FIELD])
    plain = block[: _SUM_FIELD.start] + b" " * 8 + block[_SUM_FIELD.stop :]
    signed = sum(plain) - 256 * sum(byte > 127 for byte in plain)  # noqa: PLR2004 - what old writers compute
    if stated is None or stated not in (sum(plain), signed):
        raise Damaged(where, f"offset {offset}: no tar header, its sum is wrong")
    kind = block[_TYPE_FIELD]
    own = kind in {_EXTENDED, _GLOBAL, _LONG_NAME, _LONG_LINK}
    size = _number(block[_SIZE_FIELD])
    if not own and "size" in pending:
        size = int(pending["size"]) if _DECIMAL.match(pending["size"]) else None
    if size is None or not 0 <= size < _LARGEST:
        raise Damaged(where, f"offset {offset}: a size that is no number")
    name = _text(block[:100])
    if block[257:263] == b"ustar\0" and block[345]:
        name = f"{_text(block[345:500])}/{name}"
    if not own:
        name = pending.get("path", name)
    has_data = own or kind in (b"0", b"\0", b"7")
    return _Entry(name, kind, offset + BLOCK, size if has_data else 0)


def _check_kind(entry: _Entry, where: str) -> None:
    shown = f"{entry.raw_name[:100]!a}"
    if entry.kind == b"S":
        raise NotServed(where, f"{shown} is a sparse file; write the archive without --sparse")
    if entry.kind not in {b"0", b"\0", b"7", _DIRECTORY}:
        what = _KINDS.get(entry.kind, f"of the unknown type {entry.kind!r}")
        raise NotServed(where, f"{shown} is {what}; only files and directories are taken")


def _number(field: bytes) -> int | None:
    """Return a number in octal digits, or in base 256 as GNU tar writes large ones."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not digits:
        return 0
    try:
        return int(digits.decode("ascii"), 8)
    except ValueError:
        return None


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode(errors="surrogateescape")


def _extend(data: bytes, entry: _Entry, where: str, pending: dict[str, str]) -> None:
    """Note what an extended header says about the entry after it."""
    if entry.kind == _LONG_NAME:
        pending["path"] = _text(data)
        return
    if entry.kind == _LONG_LINK:
        return
    at = 0
    while at < len(data):
        space = data.find(b" ", at, at + _LENGTH_DIGITS)
        length = int(data[at:space]) if space > at and data[at:space].isdigit() else 0
        key, equals, value = data[space + 1 : at + length].partition(b"=")
        if length <= space - at or at + length > len(data) or not equals or not value.endswith(b"\n"):
            raise Damaged(where, f"offset {entry.start}: an extended header that cannot be read")
        if key.startswith(b"GNU.sparse"):
            raise NotServed(where, "it holds sparse files; write the archive without --sparse")
        if key in {b"path", b"size"} and entry.kind == _EXTENDED:
            pending[key.decode()] = value[:-1].decode(errors="surrogateescape")
        at += length


def _padded(size: int) -> int:
    return size + -size % BLOCK


def header(path: str, size: int) -> bytes:
    """Return the header blocks of a file in a reproducible tar: mode 0644, owner 0, time 0."""
    raw = path.encode()
    if len(raw) <= _USTAR_NAME and path.isascii():
        return _block(raw, size, b"0")
    record = b" path=" + raw + b"\n"
    length = len(record)
    while len(str(length)) + len(record) != length:
        length = len(str(length)) + len(record)
    data = str(length).encode() + record
    return (
        _block(b"PaxHeader", len(data), _EXTENDED)
        + data
        + bytes(-len(data) % BLOCK)
        + _block(raw[:_USTAR_NAME], size, b"0")
    )


def _block(name: bytes, size: int, kind: bytes) -> bytes:
    head = name.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + b"%011o\0" % size + b"%011o\0" % 0
    tail = kind + bytes(100) + b"ustar\x0000" + bytes(64) + b"0000000\0" * 2 + bytes(167)
    total = sum(head) + sum(tail) + 8 * ord(" ")
    return head + b"%06o\0 " % total + tail


def padding(size: int) -> bytes:
    """Return the zeros that follow a file of this size in a tar."""
    return bytes(-size % BLOCK)


#: what closes a tar
END = bytes(2 * BLOCK)
