"""Layers as tar files, images as docker-archive tar files, which containerd, podman and docker read.

A layer is a plain tar whose content depends only on the files put in, so that an unchanged layer
keeps its digest and a runtime that holds it already does not unpack it again.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import tarfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Layer:
    """A finished layer: its tar file and the SHA-256 of that tar."""

    path: Path
    digest: str


@dataclass(frozen=True)
class Image:
    """What becomes one image of an archive."""

    reference: str
    layers: Sequence[Layer]
    config: Mapping[str, Any]

    def document(self) -> bytes:
        """Return the image's configuration as containers' runtimes read it."""
        machine = platform.machine()
        document = {
            "architecture": MACHINES.get(machine, machine),
            "os": "linux",
            "config": dict(self.config),
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in self.layers]},
        }
        return json.dumps(document, sort_keys=True).encode()


@dataclass
class LayerWriter:
    """Collects files and writes them as one reproducible layer."""

    sources: dict[str, Path] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    directories: dict[str, int] = field(default_factory=dict)

    def add(self, source: Path, target: str) -> None:
        """Add a file, following a link to it, or a whole folder with its links kept."""
        self.sources[target.strip("/")] = source

    def add_text(self, target: str, text: str) -> None:
        """Add a small file with this content."""
        self.texts[target.strip("/")] = text

    def add_link(self, target: str, points_to: str) -> None:
        """Add a symbolic link."""
        self.links[target.strip("/")] = points_to

    def add_directory(self, target: str, mode: int = 0o755) -> None:
        """Add an empty folder."""
        self.directories[target.strip("/")] = mode

    def write(self, path: Path) -> Layer:
        """Write the layer, whole or not at all, and beside it its digest."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        with partial.open("wb") as raw:
            output = _HashingFile(raw)
            with tarfile.open(fileobj=output, mode="w|", format=tarfile.GNU_FORMAT) as tar:
                self._write_members(tar)
        partial.rename(path)
        layer = Layer(path, output.digest())
        _digest_file(path).write_text(layer.digest)
        return layer

    def _write_members(self, tar: tarfile.TarFile) -> None:
        for name, mode in sorted(self.directories.items()):
            tar.addfile(_member(name, tarfile.DIRTYPE, mode))
        for name, text in sorted(self.texts.items()):
            content = text.encode()
            member = _member(name, tarfile.REGTYPE, 0o644)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for target, source in sorted(self.sources.items()):
            _add_tree(tar, source, target)
        for name, points_to in sorted(self.links.items()):
            member = _member(name, tarfile.SYMTYPE, 0o777)
            member.linkname = points_to
            tar.addfile(member)


def kept_layer(path: Path) -> Layer | None:
    """Return the layer that an earlier write left at this path."""
    digest = _digest_file(path)
    if path.exists() and digest.exists():
        return Layer(path, digest.read_text())
    return None


def write_archive(images: Sequence[Image], output: Path) -> None:
    """Write images, and every layer once, as one docker-archive; whole or not at all."""
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(f".{output.name}.{os.getpid()}")
    manifest = []
    with tarfile.open(partial, "w", format=tarfile.GNU_FORMAT) as tar:
        for layer in _distinct(layer for image in images for layer in image.layers):
            _add_layer(tar, layer)
        for image in images:
            document = image.document()
            name = f"{hashlib.sha256(document).hexdigest()}.json"
            _add_bytes(tar, name, document)
            layers = [_layer_name(layer) for layer in image.layers]
            manifest.append({"Config": name, "RepoTags": [image.reference], "Layers": layers})
        _add_bytes(tar, "manifest.json", json.dumps(manifest).encode())
    partial.rename(output)


class _HashingFile(io.RawIOBase):
    """Passes bytes on to a file and hashes them on the way."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._hash = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._hash.update(data)
        return self._raw.write(data)

    def digest(self) -> str:
        return self._hash.hexdigest()


def _distinct(layers: Iterable[Layer]) -> list[Layer]:
    return list({layer.digest: layer for layer in layers}.values())


def _layer_name(layer: Layer) -> str:
    return f"{layer.digest}.tar"


def _add_layer(tar: tarfile.TarFile, layer: Layer) -> None:
    member = _member(_layer_name(layer), tarfile.REGTYPE, 0o644)
    member.size = layer.path.stat().st_size
    with layer.path.open("rb") as content:
        tar.addfile(member, content)


def _digest_file(path: Path) -> Path:
    return path.with_suffix(".digest")


def _add_tree(tar: tarfile.TarFile, source: Path, target: str) -> None:
    if not source.is_dir():
        tar.add(source.resolve(), target, recursive=False, filter=_normalized)
        return
    for directory, subdirectories, files in os.walk(source):
        subdirectories.sort()
        here = Path(directory)
        inside = PurePosixPath(target) / here.relative_to(source).as_posix()
        if str(inside) != ".":
            tar.add(directory, str(inside), recursive=False, filter=_normalized)
        links = [name for name in subdirectories if (here / name).is_symlink()]
        for name in sorted([*files, *links]):
            tar.add(here / name, str(inside / name), recursive=False, filter=_normalized)


def _normalized(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    return member


def _member(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode = kind, mode
    return member


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = _member(name, tarfile.REGTYPE, 0o644)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))
