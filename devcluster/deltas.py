"""Makes a small archive of a large one: without the layers that a node has already.

An archive of `python -m images build` is mostly layers that never change. containerd reads all of a
docker-archive, present or not; of an OCI layout it takes what is there and finds the rest in its own store.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

LAYER = re.compile(r"([0-9a-f]{64})\.tar")
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
NAME = "io.containerd.image.name"


def write(archive: Path, present: set[str], output: Path) -> bool:
    """Write what a node lacks that has the `present` digests; False when the archive is not one of ours."""
    try:
        with tarfile.open(archive, "r:") as source:
            entries = json.loads(_content(source, "manifest.json"))
            if not all(LAYER.fullmatch(layer) for entry in entries for layer in entry["Layers"]):
                return False
            with tarfile.open(output, "w") as target:
                _Layout(source, present, target).write(entries)
    except (tarfile.ReadError, KeyError):
        return False
    return True


def full_name(reference: str) -> str:
    """Return a reference as the kubelet asks for it: `app:1` is `docker.io/library/app:1`."""
    first, slash, _ = reference.partition("/")
    if not slash:
        return f"docker.io/library/{reference}"
    is_host = "." in first or ":" in first or first == "localhost"
    return reference if is_host else f"docker.io/{reference}"


class _Layout:
    """Turns the images of a docker-archive into an OCI layout with gaps."""

    def __init__(self, source: tarfile.TarFile, present: set[str], target: tarfile.TarFile) -> None:
        self._source = source
        self._present = set(present)
        self._target = target

    def write(self, entries: list[dict[str, Any]]) -> None:
        manifests = [described for entry in entries for described in self._image(entry)]
        self._add("oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        self._add("index.json", json.dumps({"schemaVersion": 2, "manifests": manifests}).encode())

    def _image(self, entry: dict[str, Any]) -> list[dict[str, Any]]:
        config = self._blob(CONFIG_TYPE, _content(self._source, entry["Config"]))
        layers = [self._layer(name) for name in entry["Layers"]]
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config, "layers": layers}
        described = self._blob(MANIFEST_TYPE, json.dumps(manifest).encode())
        return [{**described, "annotations": {NAME: full_name(tag)}} for tag in entry["RepoTags"]]

    def _layer(self, name: str) -> dict[str, Any]:
        member = self._source.getmember(name)
        described = _described(LAYER_TYPE, name.removesuffix(".tar"), member.size)
        if described["digest"] not in self._present:
            self._present.add(described["digest"])
            copied = tarfile.TarInfo(_path(described))
            copied.size = member.size
            self._target.addfile(copied, self._source.extractfile(member))
        return described

    def _blob(self, media_type: str, content: bytes) -> dict[str, Any]:
        described = _described(media_type, hashlib.sha256(content).hexdigest(), len(content))
        self._add(_path(described), content)
        return described

    def _add(self, name: str, content: bytes) -> None:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        self._target.addfile(member, io.BytesIO(content))


def _described(media_type: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": size}


def _path(described: dict[str, Any]) -> str:
    return f"blobs/{described['digest'].replace(':', '/')}"


def _content(source: tarfile.TarFile, name: str) -> bytes:
    file = source.extractfile(name)
    if file is None:
        raise KeyError(name)
    return file.read()
