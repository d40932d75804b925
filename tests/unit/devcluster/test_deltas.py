from __future__ import annotations

import hashlib
import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from devcluster import deltas
from images.archive import Image, Layer, LayerWriter, write_archive

if TYPE_CHECKING:
    from pathlib import Path


def _layer(folder: Path, name: str) -> Layer:
    writer = LayerWriter()
    writer.add_text("etc/name", name)
    return writer.write(folder / f"{name}.tar")


@pytest.fixture
def layers(tmp_path: Path) -> list[Layer]:
    return [_layer(tmp_path, "base"), _layer(tmp_path, "own")]


@pytest.fixture
def archive(tmp_path: Path, layers: list[Layer]) -> Path:
    path = tmp_path / "archive.tar"
    write_archive([Image("app:1", layers, {"User": "1"}), Image("local/other:1", layers[:1], {})], path)
    return path


def _files(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {name: content.read() for name in tar.getnames() if (content := tar.extractfile(name))}


def _json(files: dict[str, bytes], described: dict[str, Any]) -> Any:
    content = files[f"blobs/{described['digest'].replace(':', '/')}"]
    assert f"sha256:{hashlib.sha256(content).hexdigest()}" == described["digest"]
    assert len(content) == described["size"]
    return json.loads(content)


def test_only_what_is_missing_is_in_it(tmp_path: Path, archive: Path, layers: list[Layer]) -> None:
    output = tmp_path / "delta.tar"
    assert deltas.write(archive, {f"sha256:{layers[0].digest}"}, output)
    files = _files(output)
    assert f"blobs/sha256/{layers[0].digest}" not in files
    assert files[f"blobs/sha256/{layers[1].digest}"] == layers[1].path.read_bytes()
    index = json.loads(files["index.json"])
    names = [described["annotations"][deltas.NAME] for described in index["manifests"]]
    assert names == ["docker.io/library/app:1", "docker.io/local/other:1"]
    manifest = _json(files, index["manifests"][0])
    assert [layer["digest"] for layer in manifest["layers"]] == [f"sha256:{one.digest}" for one in layers]
    assert _json(files, manifest["config"])["config"] == {"User": "1"}


def test_a_layer_of_two_images_is_in_it_once(tmp_path: Path, archive: Path, layers: list[Layer]) -> None:
    output = tmp_path / "delta.tar"
    assert deltas.write(archive, set(), output)
    with tarfile.open(output) as tar:
        assert tar.getnames().count(f"blobs/sha256/{layers[0].digest}") == 1


def test_other_archives_are_left_to_containerd(tmp_path: Path) -> None:
    other = tmp_path / "other.tar"
    with tarfile.open(other, "w") as tar:
        tar.add(__file__, "index.json")
    assert not deltas.write(other, set(), tmp_path / "delta.tar")
    other.write_bytes(b"\x1f\x8b compressed")
    assert not deltas.write(other, set(), tmp_path / "delta.tar")


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("app:1", "docker.io/library/app:1"),
        ("local/app:1", "docker.io/local/app:1"),
        ("docker.io/local/app:1", "docker.io/local/app:1"),
        ("localhost/app:1", "localhost/app:1"),
        ("registry:5000/app:1", "registry:5000/app:1"),
    ],
)
def test_names_as_the_kubelet_asks_for_them(reference: str, name: str) -> None:
    assert deltas.full_name(reference) == name
