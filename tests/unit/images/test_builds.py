from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from images import builds, debian, gateimage, pythonimage
from images.archive import Layer, LayerWriter
from images.errors import ImageError
from tools import compile_recipes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_downloads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The base and the wheels are made elsewhere; here they are empty layers."""
    layer = LayerWriter().write(tmp_path / "empty.tar")
    monkeypatch.setattr(debian, "base", lambda: debian.Base(layer, "0.0"))
    monkeypatch.setattr(pythonimage, "wheels_layer", lambda *_: layer)
    (tmp_path / "nginx" / "usr" / "lib").mkdir(parents=True)
    (tmp_path / "nginx" / "usr" / "sbin").mkdir()
    (tmp_path / "nginx" / "usr" / "sbin" / "nginx").touch()
    monkeypatch.setattr(gateimage, "nginx", lambda: tmp_path / "nginx")


def _checkout(monkeypatch: pytest.MonkeyPatch, root: Path) -> Path:
    source = root / "src" / "room"
    source.mkdir(parents=True)
    (source / "module.py").write_text("x = 1\n")
    monkeypatch.setattr(builds, "CHECKOUT", root)
    return source


def test_the_tag_says_what_is_in_the_image(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = _checkout(monkeypatch, tmp_path / "c")
    first = builds.BUILDS["ai-models"](tmp_path).reference
    (source / "__pycache__").mkdir()
    (source / "__pycache__" / "module.cpython-311.pyc").touch()
    assert builds.BUILDS["ai-models"](tmp_path).reference == first
    (source / "module.py").write_text("x = 2\n")
    assert builds.BUILDS["ai-models"](tmp_path).reference != first
    assert re.fullmatch(r"ai-models:[0-9a-f]{12}", first)


@pytest.mark.parametrize("name", ["ai-models", "llama", "gate"])
def test_the_dockerfile_makes_the_same_container(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if name == "ai-models":
        _checkout(monkeypatch, tmp_path / "c")
    config = builds.BUILDS[name](tmp_path).config
    text = (builds.HERE / name / "Dockerfile").read_text().replace("\\\n", " ")
    assert _last(text, "ENTRYPOINT", lambda words: re.findall(r'"([^"]+)"', words)) == config["Entrypoint"]
    assert _last(text, "USER", str.strip) == config["User"]
    assert _last(text, "WORKDIR", str.strip) == config["WorkingDir"]
    assert _last(text, "ENV", str.split) == list(config["Env"])


def test_our_own_files_lie_where_python_looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _checkout(monkeypatch, tmp_path / "c")
    image = builds.BUILDS["ai-models"](tmp_path)
    own: Layer = image.layers[-1]
    assert b"opt/ai-models/room/module.py" in own.path.read_bytes()
    path = next(word for word in image.config["Env"] if word.startswith("PYTHONPATH="))
    assert path.removeprefix("PYTHONPATH=").split(":")[0] == "/opt/ai-models"


def test_the_gate_is_found_with_nginx_beside_it(tmp_path: Path) -> None:
    layers = builds.BUILDS["gate"](tmp_path).layers
    assert b"usr/bin/nginx" in layers[-2].path.read_bytes()
    own = layers[-1].path.read_bytes()
    assert b"opt/programs/gate/__main__.py" in own
    assert b"Dockerfile" not in own


def _last(text: str, instruction: str, read: Callable[[str], Any]) -> Any:
    return read(re.findall(rf"^{instruction} (.*)$", text, re.MULTILINE)[-1])


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("--context: 5", "--context is no option of"),
        ("--ctx-size: large", "--ctx-size takes a number"),
        ("--verbose: true", "differs from modules/ai-inference/images/catalogs"),
    ],
)
def test_no_image_is_made_of_recipes_that_the_engine_would_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str, words: str
) -> None:
    for folder in (compile_recipes.FOLDER, compile_recipes.COMPILED.parent):
        shutil.copytree(builds.CHECKOUT / folder, tmp_path / folder)
    recipes = tmp_path / compile_recipes.FOLDER / "runtime-recipes.compiled.yaml"
    text = recipes.read_text()
    recipes.write_text(text.replace("--metrics: true", f"--metrics: true\n        {argument}", 1))
    monkeypatch.setattr(builds, "CHECKOUT", tmp_path)
    with pytest.raises(ImageError, match=re.escape(words)):
        builds.build("ai-models", tmp_path / "image.tar", tmp_path)
