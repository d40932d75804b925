"""Which container uploaded bytes are in: told by the file's name and proved by its first bytes."""

from __future__ import annotations

from enum import StrEnum

from modelkit.errors import Damaged, NotAModel, NotServed

#: as many first bytes as ``container`` can make use of
HEAD = 512


class Container(StrEnum):
    """Forms in which a model may be uploaded."""

    GGUF = "GGUF"
    TAR = "tar"
    GZIP = "gzip"
    ZIP = "zip"
    ZSTD = "zstd"


#: what this version publishes; the others are recognised and refused with that word
SERVED = frozenset({Container.GGUF, Container.TAR})

_SUFFIXES = (
    (".gguf", Container.GGUF),
    (".tar.gz", Container.GZIP),
    (".tgz", Container.GZIP),
    (".tar.zst", Container.ZSTD),
    (".tar.zstd", Container.ZSTD),
    (".tzst", Container.ZSTD),
    (".tar", Container.TAR),
    (".zip", Container.ZIP),
)
_MAGIC = (
    (b"GGUF", Container.GGUF),
    (b"PK\x03\x04", Container.ZIP),
    (b"PK\x05\x06", Container.ZIP),
    (b"PK\x07\x08", Container.ZIP),
    (b"\x1f\x8b", Container.GZIP),
    (b"\x28\xb5\x2f\xfd", Container.ZSTD),
)
_MAGIC_LENGTH = 4
_FOREIGN = (
    *(".bin", ".pt", ".pth", ".onnx", ".h5", ".ckpt", ".msgpack", ".tflite", ".pb", ".npz", ".pkl"),
    *(".rar", ".7z", ".xz", ".txz", ".bz2", ".tbz2", ".gz", ".zst", ".zstd", ".iso", ".exe", ".json"),
)
_ACCEPTED = "send a .gguf file, or a .tar with GGUF files or with config.json and .safetensors files"


def container(filename: str | None, head: bytes) -> Container:
    """Return the container of an upload from its name and first bytes (``HEAD`` of them, or all there are).

    Raises:
        NotAModel: neither name nor bytes are of a form that is taken, or they contradict each other.
    """
    name = (filename or "").rpartition("/")[2].lower()
    shown = ascii(filename[:120]) if filename else "the upload"
    found = _by_magic(head)
    if name.endswith(".safetensors"):
        raise NotAModel(
            shown, "a .safetensors file alone is no model, it needs its config.json; send both in a .tar"
        )
    for suffix, expected in _SUFFIXES:
        if name.endswith(suffix):
            _prove(shown, suffix, expected, found, head)
            return expected
    if name.endswith(_FOREIGN):
        raise NotAModel(shown, f"files of this kind are not taken; {_ACCEPTED}")
    if found is None:
        raise NotAModel(shown, f"the first bytes are of no known model or archive; {_ACCEPTED}")
    return found


def serve(filename: str | None, head: bytes) -> Container:
    """Return the container like ``container``, and refuse the recognised ones that are not published yet."""
    found = container(filename, head)
    if found not in SERVED:
        shown = ascii(filename[:120]) if filename else "the upload"
        raise NotServed(
            shown, f"{found} archives are not taken by this version yet; send the same files as a plain .tar"
        )
    return found


def _by_magic(head: bytes) -> Container | None:
    for magic, found in _MAGIC:
        if head.startswith(magic):
            return found
    return Container.TAR if is_tar_header(head[:HEAD]) else None


def _prove(shown: str, suffix: str, expected: Container, found: Container | None, head: bytes) -> None:
    if expected is Container.TAR:
        if len(head) >= HEAD and found is not Container.TAR:
            raise Damaged(shown, "the first block is no tar header; send a .tar as GNU or POSIX tar write it")
    elif found is not expected and len(head) >= _MAGIC_LENGTH:
        raise Damaged(shown, f"the first bytes are not those of a {suffix} file")
    elif len(head) < _MAGIC_LENGTH:
        raise Damaged(shown, f"{len(head)} bytes are too few for a {suffix} file")


def is_tar_header(block: bytes) -> bool:
    """Say whether a block of 512 bytes is a tar header: its sum is the one that it states."""
    if len(block) < HEAD or not block[0]:
        return False
    try:
        stated = int(block[148:156].strip(b" \0").decode("ascii"), 8)
    except ValueError:
        return False
    return stated == sum(block[:148]) + sum(block[156:HEAD]) + 8 * ord(" ")
