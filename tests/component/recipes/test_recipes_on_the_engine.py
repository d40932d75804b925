"""What the recipes say, on the real engine of the project's image with the demo's real model."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
from typing import TYPE_CHECKING

import pytest

from images import pythonimage
from tests.kit.launchplans import planned, request
from tests.kit.llama import SOURCES, Llama
from tools.demo import gemma
from tools.engine_options import Options

if TYPE_CHECKING:
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
