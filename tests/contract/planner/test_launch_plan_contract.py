"""The planner's service answers anything as its committed OpenAPI document says."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
import yaml
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from tests.kit.plannerservice import Service
from tools.generate_openapi import FILE, ROOT
from webkit.server import serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

#: the token is the test's own, and what is accepted is held to more below
EXCLUDED = [ignored_auth, positive_data_acceptance]
PATH = "/api/v1/launch-plan"


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """The service at a port of its own."""
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(Service().app, host="127.0.0.1", port=0, started=port.set_result))
    yield f"http://127.0.0.1:{await port}"
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("token", ["controller", "stranger", "unheard"])
async def test_every_answer_is_one_of_the_document(url: str, mode: GenerationMode, token: str) -> None:
    operation = schemathesis.openapi.from_dict(yaml.safe_load((ROOT / FILE).read_text()))[PATH]["POST"]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def ask(case: Any) -> None:
        answer = case.call(base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=20)
        case.validate_response(answer, excluded_checks=EXCLUDED)
        if token == "controller" and mode is GenerationMode.POSITIVE:
            # A JSON schema takes 3.0 for an integer; no client of ours writes one so.
            assert answer.status_code == 200 or "got `float`" in answer.text

    await asyncio.to_thread(ask)
