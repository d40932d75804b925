"""Tars over ranges against the standard library's, and what is refused."""

from __future__ import annotations

import io
import tarfile
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelkit import archives
from modelkit.errors import Damaged, NotAModel, NotServed
from modelkit.reading import MemoryReader

COMPONENT = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=40)
PATHS = st.lists(COMPONENT, min_size=1, max_size=6).map("/".join)
FORMATS = [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]


def written(files: dict[str, bytes], form: int = tarfile.PAX_FORMAT, **header: Any) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form, **header) as archive:
        for path, data in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def listed(data: bytes) -> dict[str, bytes]:
    found = archives.layer_members(MemoryReader(data), "a.tar")
    return {one.path: data[one.start : one.start + one.size] for one in found}


def distinct(files: dict[str, bytes]) -> bool:
    folded = [path.casefold() for path in files]
    return len(set(folded)) == len(folded) and not any(
        other.startswith(f"{path}/") for path in folded for other in folded
    )


@settings(max_examples=100, deadline=None)
@given(
    files=st.dictionaries(PATHS, st.binary(max_size=1500), max_size=8).filter(distinct),
    form=st.sampled_from(FORMATS),
)
def test_lists_what_the_library_wrote(files: dict[str, bytes], form: int) -> None:
    expected = {unicodedata.normalize("NFC", path): data for path, data in files.items()}
    assert listed(written(files, form)) == expected


@settings(max_examples=100, deadline=None)
@given(files=st.dictionaries(PATHS, st.binary(max_size=1500), max_size=8).filter(distinct))
def test_the_library_reads_what_we_write(files: dict[str, bytes]) -> None:
    parts = [
        archives.header(path, len(data)) + data + archives.padding(len(data)) for path, data in files.items()
    ]
    stream = io.BytesIO(b"".join(parts) + archives.END)
    with tarfile.open(fileobj=stream, mode="r:") as archive:
        members = archive.getmembers()
        assert {one.name: archive.extractfile(one).read() for one in members} == files  # type: ignore[union-attr]
        assert all((one.mode, one.uid, one.mtime) == (0o644, 0, 0) for one in members)


def test_a_file_of_more_than_eight_gigabytes_is_listed_without_reading_it() -> None:
    size = 9 << 30
    member = tarfile.TarInfo("big.gguf")
    member.size = size
    head = member.tobuf(tarfile.GNU_FORMAT)

    class Sparse:
        def __init__(self) -> None:
            self.size = len(head) + size + 1024
            self.read = 0

        def read_at(self, offset: int, length: int) -> bytes:
            self.read += length
            return (
                head[offset : offset + length]
                if offset < len(head)
                else bytes(min(length, self.size - offset))
            )

    reader = Sparse()
    assert archives.members(reader, "a.tar") == [archives.Member("big.gguf", 512, size)]
    assert reader.read <= 4096


def test_one_top_directory_is_taken_off_after_what_systems_leave_behind() -> None:
    data = written({"._x": b"", "__MACOSX/m": b"", "top/a": b"1", "top/b/c": b"2", "top/.git/config": b""})
    assert [one.path for one in archives.members(MemoryReader(data), "a.tar")] == ["a", "b/c"]


@pytest.mark.parametrize(
    "path", ["../x", "a/../../x", "a\0b", "a\nb", ".ai-models/model.json", "a/" * 40 + "x", "x" * 300]
)
def test_names_that_lead_astray_are_refused(path: str) -> None:
    data = written({path.replace("\0", "\x01"): b""})
    with pytest.raises(Damaged):
        archives.members(MemoryReader(data), "a.tar")


@pytest.mark.parametrize(
    "twins", [("a", "A"), ("\u00e9", "e\u0301"), ("a", "a/b"), ("x/config.json", "X/config.json")]
)
def test_names_that_are_one_file_somewhere_are_refused(twins: tuple[str, str]) -> None:
    data = written({**dict.fromkeys(twins, b""), "other": b""})
    with pytest.raises(Damaged):
        archives.members(MemoryReader(data), "a.tar")


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"Z"]
)
def test_only_files_and_directories_pass(kind: bytes) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        member = tarfile.TarInfo("x")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(NotServed, match="only files and directories"):
        archives.members(MemoryReader(stream.getvalue()), "a.tar")


def test_sparse_files_are_refused_with_the_way_out() -> None:
    data = written({"x": b"1"}, pax_headers={})
    pax = tarfile.TarInfo("x")
    pax.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.name": "real"}
    with pytest.raises(NotServed, match="without --sparse"):
        archives.members(MemoryReader(pax.tobuf(tarfile.PAX_FORMAT) + data), "a.tar")


@pytest.mark.parametrize("cut", [100, 512, 700, 1024])
def test_an_archive_that_is_cut_off_is_damaged(cut: int) -> None:
    data = written({"a": bytes(600), "b": bytes(10)})
    with pytest.raises(Damaged):
        archives.members(MemoryReader(data[:cut]), "a.tar")


def test_a_wrong_sum_is_told_with_its_place() -> None:
    data = bytearray(written({"a": b"", "b": b""}))
    data[512] ^= 1
    with pytest.raises(Damaged, match="offset 512"):
        archives.members(MemoryReader(bytes(data)), "a.tar")


def test_too_many_entries_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MEMBER_LIMIT", 3)
    data = written({str(number): b"" for number in range(4)})
    with pytest.raises(NotServed, match="more than 3 entries"):
        archives.members(MemoryReader(data), "a.tar")


def test_an_extended_header_of_any_length_is_bounded() -> None:
    member = tarfile.TarInfo("x")
    member.pax_headers = {"comment": "y" * (archives.EXTENDED_LIMIT + 1)}
    with pytest.raises(NotAModel, match="extended header"):
        archives.members(MemoryReader(member.tobuf(tarfile.PAX_FORMAT) + bytes(1024)), "a.tar")
