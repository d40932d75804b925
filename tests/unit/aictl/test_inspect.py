"""``aictl inspect``: what it prints, where it points, how it ends."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from aictl.inspect import inspect
from tests.kit import models

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(inspect, [str(one) for one in arguments], catch_exceptions=False)


def put(folder: Path, files: dict[str, bytes]) -> Path:
    for path, data in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return folder


def test_one_file_as_json(tmp_path: Path) -> None:
    put(tmp_path, {"m.gguf": models.gguf_bytes()})
    result = run(tmp_path / "m.gguf", "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert document["format"] == "GGUF"
    assert document["facts"]["layers"] == 2
    assert document["confidence"]["parameterCount"] == "Exact"
    assert "experts" not in document["facts"]


def test_one_file_for_people(tmp_path: Path) -> None:
    put(tmp_path, {"m.gguf": models.gguf_bytes(template="{{ messages }}\n\x1b[2J")})
    lines = run(tmp_path / "m.gguf").stdout.splitlines()
    assert (
        lines[0]
        == f"{tmp_path}/m.gguf: GGUF, llama, 22.8 K parameters, F16, 2048 tokens of context, 44.8 KiB"
    )
    assert "  vocabularySize          100" in lines
    assert all(line.isprintable() for line in lines)


def test_a_model_without_the_name_of_one(tmp_path: Path) -> None:
    put(tmp_path, {"sha256-0f": models.gguf_bytes(), "blob": models.checkpoint()["model.safetensors"]})
    assert json.loads(run(tmp_path / "sha256-0f", "--json").stdout)["format"] == "GGUF"
    assert json.loads(run(tmp_path / "blob", "--json").stdout)["format"] == "Safetensors"


def test_a_directory_with_shards_links_and_what_does_not_belong(tmp_path: Path) -> None:
    blobs = put(tmp_path / "blobs", models.checkpoint(shards=3))
    model = tmp_path / "model"
    model.mkdir()
    for path in blobs.iterdir():
        (model / path.name).symlink_to(path)
    put(model, {".git/config.json": b"no json", "original/x.safetensors": b"no tensors", "x.zip": b""})
    os.mkfifo(model / "pipe.json")
    (model / "circle.json").symlink_to("circle.json")
    (model / "gone.json").symlink_to("nothing")
    document = json.loads(run(model, "--json").stdout)
    assert document["architecture"] == "LlamaForCausalLM"
    assert document["parameterCount"] == 2 * 6400 + 64 + 3 * 128 * 64
    assert document["facts"]["chatTemplate"].startswith("{% if tools")


def test_any_shard_stands_for_the_set(tmp_path: Path) -> None:
    put(tmp_path, models.checkpoint(shards=3))
    document = json.loads(run(tmp_path / "model-00002-of-00003.safetensors", "--json").stdout)
    assert document["facts"]["tensorCount"] == 6
    (tmp_path / "model-00003-of-00003.safetensors").unlink()
    result = run(tmp_path / "model-00002-of-00003.safetensors")
    assert result.exit_code == 2
    assert "model-00003-of-00003.safetensors: is missing" in result.stderr


def test_a_tar(tmp_path: Path) -> None:
    put(tmp_path, {"m.tar": models.tar(models.checkpoint(), "top")})
    assert json.loads(run(tmp_path / "m.tar", "--json").stdout)["family"] == "llama"


NOT_MODELS = {
    "empty": b"",
    "text.txt": b"hello",
    "m.bin": b"GGUF",
    "m.gguf": b"GGUF\x03\0\0\0",
    "n.gguf": b"other",
    "m.safetensors": b"\x08\0\0\0\0\0\0\0{",
    "m.zip": b"PK\x03\x04",
    "m.tar.gz": b"\x1f\x8b\x08\x00",
    "m.tar": bytes(1024),
    "folder/config.json": b"{}",
}


@pytest.mark.parametrize("name", NOT_MODELS)
def test_what_is_no_model_ends_with_two_and_one_line(tmp_path: Path, name: str) -> None:
    put(tmp_path, {name: NOT_MODELS[name]})
    path = tmp_path / name.partition("/")[0]
    result = run(path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert name.partition("/")[0] in result.stderr


def test_a_damaged_file_in_a_directory_is_named(tmp_path: Path) -> None:
    put(tmp_path, {**models.checkpoint(), "model.safetensors": b"\x08\0\0\0\0\0\0\0{nonsens"})
    result = run(tmp_path)
    assert result.exit_code == 2
    assert f"{tmp_path}/model.safetensors: " in result.stderr


def test_what_cannot_be_read_ends_with_three(tmp_path: Path) -> None:
    result = run(tmp_path / "nothing")
    assert result.exit_code == 3
    assert result.stderr == f"aictl: {tmp_path}/nothing: No such file or directory\n"
    os.mkfifo(tmp_path / "pipe")
    assert run(tmp_path / "pipe").exit_code == 2


def test_a_set_of_no_files_is_no_set(tmp_path: Path) -> None:
    put(tmp_path, {"m-00000-of-00000.gguf": models.gguf_bytes()})
    put(tmp_path, {"model-00000-of-00000.safetensors": models.checkpoint()["model.safetensors"]})
    for path in tmp_path.iterdir():
        assert run(path).exit_code == 0
