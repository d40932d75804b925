"""A reranker on the real engine of the project's image: facts, plan, line, both paths, the probe."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from aiinference.probes.client import Prober
from aiinference.probes.questions import question
from aiinference.workload import paths
from modelkit import inspection
from modelkit.reading import LocalFile
from tests.kit import reranker
from tests.kit.launchplans import planned, request
from tests.kit.llama import NAME, Llama
from tests.kit.rawhttp import ask

if TYPE_CHECKING:
    from pathlib import Path

    from aiinference.planner.contract import LaunchPlan

QUERY = {"query": "a cat", "documents": ["the cat sits on the mat", "law of torts", "ping"]}


def plan_of(file: Path) -> LaunchPlan:
    found = inspection.inspect_gguf({file.name: partial(LocalFile, str(file))}).facts
    assert found.supported_endpoint_types == ("Rerank",)
    known = msgspec.to_builtins(found) | {"name": NAME, "sizeBytes": file.stat().st_size}
    return planned(request(model=known, endpointType="Rerank"))


def options(plan: LaunchPlan) -> list[str]:
    """Return the plan's line from its context on: before stands what the kit gives the server itself."""
    words = list(plan.recipe.command)
    return words[words.index("--ctx-size") :]


async def test_a_reranker_is_planned_answers_on_its_paths_and_counts_as_well(tmp_path: Path) -> None:
    file = reranker.make(tmp_path / "reranker.gguf")
    plan = plan_of(file)
    assert "--rerank" in plan.recipe.command
    assert plan.recipe.context_tokens <= reranker.CONTEXT
    answers: list[Any] = []
    async with Llama(file, tmp_path / "llama.log", *options(plan)) as llama, Prober() as prober:
        outcome = await prober.ask("127.0.0.1", llama.port, question("Rerank", NAME), None)
        assert outcome.wrong == ""
        for path in paths.of("Rerank"):
            if path.method == "POST":
                body = msgspec.json.encode(QUERY)
                answer = await ask(llama.port, path.method, path.path, body=body)
                assert answer.status == 200, answer.body
                answers.append(msgspec.json.decode(answer.body)["results"])
        chat = question("Chat", NAME)
        refused = await prober.ask("127.0.0.1", llama.port, chat, None)
        assert refused.wrong, "a reranker does not chat"
    first, second = answers
    assert first == second
    assert {one["index"] for one in first} == {0, 1, 2}
    assert len({one["relevance_score"] for one in first}) == 3
