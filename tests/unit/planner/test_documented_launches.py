"""The guide's table of launches is what is planned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kit.launchplans import planned, request

DOCS = Path(__file__).resolve().parents[3] / "docs"
ROW = re.compile(r"^\| `(Latency|Balance|Throughput)` \| (\d+) x (\d+) \| (\d+) x (\d+) \|$", re.MULTILINE)


@pytest.mark.parametrize("language", ["en", "ru"])
def test_requests_and_tokens_of_every_strategy(language: str) -> None:
    rows = ROW.findall((DOCS / language / "inference.md").read_text())
    assert len(rows) == 3
    for strategy, *numbers in rows:
        chat, pooled = (int(numbers[0]), int(numbers[1])), (int(numbers[2]), int(numbers[3]))
        for endpoint, expected in (("Chat", chat), ("Embeddings", pooled), ("Rerank", pooled)):
            recipe = planned(request(endpointType=endpoint, launchStrategy=strategy)).recipe
            assert (recipe.parallel, recipe.context_tokens) == expected, (strategy, endpoint)
