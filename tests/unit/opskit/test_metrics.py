"""The names under which a process tells its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opskit import metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

SEEN = metrics.counter("names_seen", "Names that this test has seen.", ["kind"])


@pytest.fixture(autouse=True)
def _back() -> Iterator[None]:
    yield
    metrics.belong_to("ai_models")


@pytest.mark.parametrize("product", ["ai_models", "ai_inference"])
def test_names_begin_with_the_product(product: str) -> None:
    metrics.belong_to(product)
    SEEN.labels("own").inc()
    told = metrics.render().decode()
    assert f"# TYPE d8_{product}_names_seen_total counter" in told
    assert f'\nd8_{product}_names_seen_total{{kind="own"}} ' in told
    assert all(line.startswith(f"d8_{product}_") for line in told.splitlines() if line.startswith("d8_"))


def test_what_the_process_itself_tells_keeps_its_names() -> None:
    metrics.belong_to("ai_inference")
    assert metrics.registry().get_sample_value("process_start_time_seconds")
