"""What the recipes say, on the real engine of the project's image with the demo's real model."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import urllib.request
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import msgspec
import pytest

from aiinference.api.reasons import LaunchStrategy
from aiinference.probes.client import Prober
from aiinference.probes.questions import question
from aiinference.recipes import command
from aiinference.recipes.catalogue import shipped
from aiinference.recipes.merge import merged
from images import pythonimage
from modelkit import inspection
from modelkit.reading import LocalFile
from tests.kit import embedder
from tests.kit.launchplans import planned, request
from tests.kit.llama import NAME, SOURCES, Llama
from tools.demo import gemma
from tools.engine_options import Options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aiinference.planner.contract import LaunchPlan

#: options that the test's own server gets from the kit
GIVEN = {"--model", "--alias", "--host", "--port"}


def options(plan: LaunchPlan) -> list[str]:
    """The plan's line without its entry point and without what says where everything is."""
    words = list(plan.recipe.command[2:])
    while words and words[0] in GIVEN:
        words = words[2:]
    return words


def peak(pid: int) -> int:
    """The most memory that the process has had, in bytes."""
    with open(f"/proc/{pid}/status") as status:  # noqa: PTH123 - no file of a file system
        (line,) = [line for line in status if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def vectors(port: int, texts: list[str]) -> list[list[float]]:
    """The texts as vectors."""
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/embeddings",
        json.dumps({"input": texts}).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(asked, timeout=200) as answer:  # noqa: S310 - the same
        return [one["embedding"] for one in json.load(answer)["data"]]


def cosine(one: list[float], other: list[float]) -> float:
    """How near two vectors of length one are."""
    return sum(a * b for a, b in zip(one, other, strict=True))


def status(port: int, path: str, body: object) -> int:
    """Ask with more patience than a busy machine needs."""
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=200) as answer:  # noqa: S310 - the same
        return int(answer.status)


def test_every_option_of_the_list_is_in_the_engine() -> None:
    """The list was read from sources; the engine's own library has each spelling."""
    wheels = pythonimage.wheels_folder("llama-wheels", SOURCES / "requirements.lock")
    (library,) = wheels.glob("xllamacpp/*.so")
    words = set(re.findall(rb"--[a-z0-9][a-z0-9.-]*", library.read_bytes()))
    missing = [name for name in Options.read("llama-server-b11549").names if name.encode() not in words]
    assert not missing


#: reads lines as the image's program does, and has the engine's own parameters made from each
TAKES = """
import json, pathlib, sys
import serve
for words in json.load(sys.stdin):
    sys.argv = words
    serve._parameters(serve._options(), pathlib.Path("model.gguf"))
"""


def every_line() -> Iterator[list[str]]:
    """Each line that any recipe of llama.cpp can give, without the interpreter."""
    catalogue = shipped()
    for record in catalogue.recipes:
        engine = catalogue.engine(record.engine)
        for endpoint, hardware, strategy in product(record.variants, record.hardware, LaunchStrategy):
            layer = merged(record, endpoint, hardware, strategy)
            pooling = layer.sizing.pooling
            for word in (pooling.encoder, pooling.decoder, None) if pooling else (None,):
                values = dict.fromkeys(command.NAMES, 1) | {"model": "/m", "name": "m", "pooling": word}
                yield list(command.line(engine, layer, values)[1:])


def _read(lines: list[list[str]]) -> subprocess.CompletedProcess[str]:
    wheels = pythonimage.wheels_folder("llama-wheels", SOURCES / "requirements.lock")
    return subprocess.run(
        [sys.executable, "-c", TAKES],
        input=json.dumps(lines),
        env=os.environ | {"PYTHONPATH": f"{wheels}:{SOURCES}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_every_line_of_every_recipe_is_taken_by_the_program_of_the_image() -> None:
    lines = list(every_line())
    assert {shipped().engine(record.engine).name for record in shipped().recipes} == {"llama.cpp"}
    assert len(lines) > len(LaunchStrategy) * len(shipped().recipes)
    done = _read(lines)
    assert done.returncode == 0, done.stderr


def test_a_line_with_an_option_that_the_program_lacks_is_not_taken() -> None:
    line = next(every_line())
    assert "--no-such" in _read([[*line, "--no-such"]]).stderr


@pytest.mark.parametrize(
    ("endpoint", "strategy", "path", "body"),
    [
        ("Chat", "Latency", "/v1/completions", {"prompt": "one two three", "max_tokens": 4}),
        ("Chat", "Throughput", "/v1/completions", {"prompt": "one two three", "max_tokens": 4}),
        ("Embeddings", "Latency", "/v1/embeddings", {"input": "word " * 270}),
    ],
)
async def test_a_planned_engine_answers_within_its_memory(
    tmp_path: Path, endpoint: str, strategy: str, path: str, body: dict[str, object]
) -> None:
    plan = planned(request(endpointType=endpoint, launchStrategy=strategy))
    async with Llama(gemma.fetch(), tmp_path / "llama.log", *options(plan)) as llama:
        answers = await asyncio.gather(
            *(asyncio.to_thread(status, llama.port, path, body) for _ in range(plan.recipe.parallel))
        )
        assert set(answers) == {200}
        used = peak(llama.process.pid)
    assert used <= plan.recipe.resources.memory_bytes
    # What is asked for beyond is kept for a full context and old prompts.
    spare = plan.need.cache_bytes + plan.need.kv_bytes + plan.need.overhead_bytes
    assert used >= plan.recipe.resources.memory_bytes / 1.1 - spare


async def test_an_embedding_model_is_served_as_the_model_itself_says(tmp_path: Path) -> None:
    file = embedder.make(tmp_path / "embedder.gguf")
    found = inspection.inspect_gguf({file.name: partial(LocalFile, str(file))}).facts
    assert (found.supported_endpoint_types, found.facts.chat_template) == (("Embeddings",), None)
    plan = planned(
        request(
            model={"supportedEndpointTypes": ["Embeddings"], "facts": msgspec.to_builtins(found.facts)},
            endpointType="Embeddings",
        )
    )
    assert found.facts.pooling == "last"
    assert "--pooling" not in plan.recipe.command
    async with Llama(file, tmp_path / "llama.log", *options(plan)) as llama, Prober() as prober:
        outcome = await prober.ask("127.0.0.1", llama.port, question("Embeddings", NAME), None)
        assert outcome.wrong == ""
        near, same, far = await asyncio.to_thread(vectors, llama.port, ["a cat", "a cat", "the law of torts"])
    assert len(near) == embedder.DIMENSIONS
    assert cosine(near, same) > cosine(near, far)
    assert cosine(near, same) == pytest.approx(1, abs=1e-3)
