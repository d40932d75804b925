from __future__ import annotations

import hashlib
import json
import os
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from images.archive import Image, Layer, LayerWriter, kept_layer, write_archive

if TYPE_CHECKING:
    from pathlib import Path


def _tree(root: Path) -> Path:
    (root / "b").mkdir(parents=True)
    (root / "b" / "two").write_text("2")
    (root / "one").write_text("1")
    (root / "one").chmod(0o755)
    (root / "link").symlink_to("one")
    (root / "folder-link").symlink_to("b")
    return root


def _layer(tree: Path, path: Path) -> Layer:
    writer = LayerWriter()
    writer.add(tree, "opt/tree")
    writer.add_directory("tmp", 0o1777)
    writer.add_text("etc/passwd", "root\n")
    writer.add_link("bin/sh", "busybox")
    return writer.write(path)


def test_equal_files_give_an_equal_layer_whenever_and_by_whomever_written(tmp_path: Path) -> None:
    first, second = _tree(tmp_path / "a"), _tree(tmp_path / "b")
    os.utime(second / "one", (1, 1))
    one, two = _layer(first, tmp_path / "1.tar"), _layer(second, tmp_path / "2.tar")
    assert one.digest == two.digest
    assert hashlib.sha256(one.path.read_bytes()).hexdigest() == one.digest


def test_a_changed_file_changes_the_layer(tmp_path: Path) -> None:
    tree = _tree(tmp_path / "a")
    before = _layer(tree, tmp_path / "1.tar")
    (tree / "b" / "two").write_text("3")
    assert _layer(tree, tmp_path / "2.tar").digest != before.digest


def test_what_a_layer_holds(tmp_path: Path) -> None:
    layer = _layer(_tree(tmp_path / "a"), tmp_path / "1.tar")
    with tarfile.open(layer.path) as tar:
        members = {member.name: member for member in tar}
    assert members["opt/tree/one"].mode == 0o755
    assert members["opt/tree/link"].linkname == "one"
    assert members["opt/tree/folder-link"].issym()
    assert members["opt/tree/b/two"].isfile()
    assert members["tmp"].mode == 0o1777
    assert members["bin/sh"].linkname == "busybox"
    assert {(member.uid, member.gid, member.mtime, member.uname) for member in members.values()} == {
        (0, 0, 0, "")
    }


def test_a_written_layer_is_found_again(tmp_path: Path) -> None:
    assert kept_layer(tmp_path / "1.tar") is None
    layer = _layer(_tree(tmp_path / "a"), tmp_path / "1.tar")
    assert kept_layer(tmp_path / "1.tar") == layer


def test_a_layer_that_fails_leaves_nothing_to_be_found(tmp_path: Path) -> None:
    writer = LayerWriter()
    writer.add(tmp_path / "missing", "one")
    with pytest.raises(FileNotFoundError):
        writer.write(tmp_path / "1.tar")
    assert kept_layer(tmp_path / "1.tar") is None


def test_an_archive_holds_every_layer_once(tmp_path: Path) -> None:
    layer = _layer(_tree(tmp_path / "a"), tmp_path / "1.tar")
    images = [Image(f"local/{name}:1", [layer], {"User": "1"}) for name in ("one", "two")]
    write_archive(images, tmp_path / "archive.tar")
    with tarfile.open(tmp_path / "archive.tar") as tar:
        names = tar.getnames()
        manifest = _json(tar, "manifest.json")
        config = _json(tar, manifest[0]["Config"])
        content = tar.extractfile(f"{layer.digest}.tar")
        assert content is not None
        assert content.read() == layer.path.read_bytes()
    assert names.count(f"{layer.digest}.tar") == 1
    assert [entry["RepoTags"] for entry in manifest] == [["local/one:1"], ["local/two:1"]]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{layer.digest}"]
    assert config["config"] == {"User": "1"}


def _json(tar: tarfile.TarFile, name: str) -> Any:
    file = tar.extractfile(name)
    assert file is not None
    return json.loads(file.read())
