"""The images as files: unpacked, entered, and their programs run as the user that a container has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from devcluster import cache
from images import builds

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(600),  # the first build on a machine fetches packages
    pytest.mark.skipif(os.geteuid() != 0, reason="entering an image needs root"),
]

PROCESSES = (
    "aimodels.processes.controller",
    "aimodels.processes.api",
    "aimodels.dmcr.app",
    "aimodels.publication",
    "aimodels.delivery.copy",
)


@contextmanager
def _unpacked(name: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    with tempfile.TemporaryDirectory(dir=cache.folder("images")) as work:
        archive, root = Path(work) / "image.tar", Path(work) / "root"
        builds.build(name, archive, Path(work))
        root.mkdir()
        with tarfile.open(archive) as tar:
            manifest = _json(tar, "manifest.json")[0]
            for layer in manifest["Layers"]:
                content = tar.extractfile(layer)
                assert content is not None
                _unpack(content.read(), root)
            yield root, _json(tar, manifest["Config"])["config"]


def _unpack(layer: bytes, root: Path) -> None:
    """Use tar itself: the filters that Python's wants are newer than Debian's Python 3.11.2."""
    subprocess.run(["tar", "-x", "-C", str(root)], input=layer, check=True)


def _json(tar: tarfile.TarFile, name: str) -> Any:
    content = tar.extractfile(name)
    assert content is not None
    return json.loads(content.read())


def _run(root: Path, config: dict[str, Any], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        "/usr/sbin/chroot",
        f"--userspec={config['User']}",
        str(root),
        *config["Entrypoint"],
        *arguments,
    ]
    environment = dict(word.split("=", 1) for word in config["Env"])
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_the_same_sources_make_the_same_image_whichever_program_builds(tmp_path: Path) -> None:
    here = builds.build("ai-models", tmp_path / "here.tar", tmp_path)
    command = [sys.executable, "-m", "images", "build", "ai-models", "--output", str(tmp_path / "there.tar")]
    there = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert there.stdout.strip() == here


def test_every_process_finds_all_that_it_imports() -> None:
    program = (
        f"import importlib, os; [importlib.import_module(name) for name in {PROCESSES}]; print(os.getuid())"
    )
    with _unpacked("ai-models") as (root, config):
        result = _run(root, config, "-c", program)
    assert (result.returncode, result.stdout) == (0, "64535\n"), result.stderr


def test_imports_are_compiled_beforehand() -> None:
    program = (
        "import sys, asyncio, msgspec, opskit; print([m.__cached__ for m in (asyncio, msgspec, opskit)])"
    )
    with _unpacked("ai-models") as (root, config):
        result = _run(root, config, "-v", "-c", program)
    loaded = [line for line in result.stderr.splitlines() if "code object from" in line]
    sources = [line for line in loaded if line.rstrip("'").endswith(".py")]
    assert loaded
    assert sources == []


def test_a_path_without_a_model_is_refused_by_the_llama_server() -> None:
    with _unpacked("llama") as (root, config):
        result = _run(root, config, "--model", "/data/none")
    assert result.returncode == 2
    assert "/data/none is no GGUF file and holds none" in result.stderr


def test_the_gate_starts_nginx_with_what_is_in_the_image() -> None:
    with _unpacked("gate") as (root, config):
        for path in ("run/gate", "dev"):
            (root / path).mkdir(parents=True, exist_ok=True)
            os.chown(root / path, 64535, 64535)
        (root / "dev" / "stdout").touch()  # which a container has from its runtime
        os.chown(root / "dev" / "stdout", 64535, 64535)
        result = _run(root, config, "--route", "GET=/v1/models", "--host", "203.0.113.1")
    assert result.returncode == 1
    assert "bind() to 203.0.113.1:8000 failed" in result.stderr
    assert '"nginx ended by itself"' in result.stderr
