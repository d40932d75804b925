"""Who may ask, what is refused, and with which status."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aiinference.planner.contract import PATH, Answer, LaunchPlan, Refusal
from aiinference.planner.inventory import Accelerator, Inventory
from aiinference.planner.service import BODY_BYTES
from kubekit.errors import Unreachable
from kubekit.tokens import Overloaded
from tests.kit.asgi import request as ask
from tests.kit.launchplans import ORDER
from tests.kit.plannerservice import Service


@pytest.fixture
def service() -> Service:
    return Service()


async def asked(service: Service, body: Any = None, token: str = "controller") -> tuple[int, dict[str, Any]]:
    sent = body if isinstance(body, bytes) else msgspec.json.encode(body or ORDER)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    answer = await ask(service.app, "POST", PATH, headers=headers, body=[sent])
    assert answer is not None
    return answer.status, msgspec.json.decode(answer.body)


async def test_the_controller_gets_a_plan(service: Service) -> None:
    status, body = await asked(service)
    assert status == 200
    assert isinstance(msgspec.convert(body, Answer), LaunchPlan)


async def test_why_there_is_no_plan_is_an_answer_too(service: Service) -> None:
    service.source.held = Inventory((Accelerator("a", "NVIDIA L4", 24 << 30),))
    status, body = await asked(service)
    assert status == 200
    assert isinstance(msgspec.convert(body, Answer), Refusal)


@pytest.mark.parametrize(("token", "status"), [("", 401), ("unheard", 401), ("stranger", 403)])
async def test_nobody_else_may_ask(service: Service, token: str, status: int) -> None:
    found, body = await asked(service, b"not even looked at", token)
    assert found == status
    assert body["nextStep"]


@pytest.mark.parametrize("error", [Unreachable("away"), Overloaded()])
async def test_when_nobody_knows_who_asks_asking_again_helps(service: Service, error: Exception) -> None:
    service.reviews.error = error
    status, body = await asked(service)
    assert (status, body["reason"]) == (503, "APIServerUnavailable")


async def test_an_inventory_that_cannot_be_read_is_no_lack_of_capacity(service: Service) -> None:
    service.source.error = Unreachable("away")
    status, body = await asked(service)
    assert (status, body["reason"]) == (503, "InventoryUnavailable")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"model":{"name":"../x"}}',
        b'{"model":{"name":"m"},"launchStrategy":"Fast"}',
        b'{"model":{"name":"m","parameterCount":-1}}',
        b'{"model":{"name":"m"},"accelerator":{"deviceClasses":[]}}',
    ],
)
async def test_what_is_no_request_is_refused_in_words(service: Service, body: bytes) -> None:
    status, problem = await asked(service, body)
    assert (status, problem["reason"]) == (400, "BadRequest")
    assert len(problem["message"]) <= 512


async def test_a_body_that_is_too_large_is_not_read(service: Service) -> None:
    status, problem = await asked(service, b" " * (BODY_BYTES + 1))
    assert (status, problem["reason"]) == (413, "BodyTooLarge")


async def test_members_of_a_newer_controller_are_passed_over(service: Service) -> None:
    status, body = await asked(service, ORDER | {"somethingNew": {"a": 1}})
    assert status == 200
    assert (status, body) == await asked(service)
