"""The catalogues are compiled only when everything in them holds."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from aiinference.recipes.catalogue import shipped
from tools.compile_recipes import FOLDER, ROOT, BadCatalogue, compiled
from tools.engine_options import Options

if TYPE_CHECKING:
    from collections.abc import Callable

RECIPES = "runtime-recipes.compiled.yaml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / FOLDER, tmp_path / "catalogs"))


def changed(path: Path, change: Callable[[Any], None]) -> None:
    document = yaml.safe_load(path.read_text())
    change(document)
    path.write_text(yaml.safe_dump(document))


def test_what_is_shipped_is_what_the_yaml_says() -> None:
    for path, text in compiled(ROOT / FOLDER).items():
        assert (ROOT / path).read_text() == text, path
    assert [engine.name for engine in shipped().engines] == ["llama.cpp"]


def base(document: Any) -> Any:
    return document["recipes"][0]["base"]["arguments"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: base(d).update({"--context": 5}), "--context is no option of b11549"),
        (lambda d: base(d).update({"--ctx-size": "large"}), "--ctx-size takes a number"),
        (lambda d: base(d).update({"--metrics": 1}), "--metrics takes no '1'"),
        (lambda d: base(d).update({"--flash-attn": "maybe"}), "--flash-attn takes on, off, auto"),
        (lambda d: base(d).update({"--draft": 1}), "--draft is not to be used any more"),
        (lambda d: base(d).update({"--batch-size": "{batsh}"}), "{batsh} is nothing that"),
        (lambda d: base(d).update({"-c": 5}), "regex"),
        (lambda d: d["recipes"][0].update(engine="vllm"), "there is no engine vllm"),
        (lambda d: d["recipes"][0]["hardware"].update(hopper={}), "no hardware family hopper"),
        (lambda d: d["recipes"][0]["match"].update(formats=["Safetensors"]), "does not load Safetensors"),
        (lambda d: d["recipes"].append(d["recipes"][0]), "llama.cpp-gguf is there twice"),
        (lambda d: d["recipes"][0]["base"].update(sizings={}), "unknown field"),
        (lambda d: d["recipes"][0]["variants"].update(Translate={}), "Translate"),
        (lambda d: d.update(version=2), "version"),
    ],
)
def test_a_recipe_that_does_not_hold_is_refused(
    folder: Path, change: Callable[[Any], None], words: str
) -> None:
    changed(folder / RECIPES, change)
    with pytest.raises(BadCatalogue, match=re.escape(words)):
        compiled(folder)


def test_a_fault_in_one_branch_names_the_branch(folder: Path) -> None:
    def change(document: Any) -> None:
        chat = document["recipes"][0]["variants"]["Chat"]["strategies"]
        chat["Throughput"]["arguments"] = {"--parallel": "many"}

    changed(folder / RECIPES, change)
    with pytest.raises(BadCatalogue) as caught:
        compiled(folder)
    assert str(caught.value) == "llama.cpp-gguf, Chat, cpu, Throughput: --parallel takes a number, not 'many'"


def test_the_argument_list_is_that_of_the_engines_version(folder: Path) -> None:
    changed(folder / "recipe-taxonomy.yaml", lambda d: d["engines"][0].update(version="b1"))
    with pytest.raises(BadCatalogue, match=r"llama\.cpp is b1, its argument list is of b11549"):
        compiled(folder)


def test_the_engine_is_the_one_in_its_image() -> None:
    lock = (ROOT / "images/llama/requirements.lock").read_text()
    (wheel,) = [row for row in lock.splitlines() if row.startswith("xllamacpp==")]
    build = wheel.split()[0].rpartition(".")[2]
    assert shipped().engines[0].version == f"b{build}"


@pytest.mark.parametrize(
    ("words", "problems"),
    [
        (["--ctx-size", "5", "--no-ui", "--metrics"], []),
        (["--fit", "off", "--pooling", "last"], []),
        (["--gpu-layers", "auto"], []),
        (["--ctx-size"], ["--ctx-size needs a value"]),
        (["--ctx-size", "--metrics"], ["--ctx-size needs a value"]),
        (["--no-such", "1", "2", "--metrics"], ["--no-such is no option of b11549"]),
        (["--embeddings"], ["--embeddings is no option of b11549"]),
    ],
)
def test_a_line_is_held_to_the_list(words: list[str], problems: list[str]) -> None:
    assert Options.read("llama-server-b11549").problems(words) == problems
