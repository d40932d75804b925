"""Why Pods are not made, read from what the cluster tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

from aiinference.orders import missing
from kubekit.errors import Forbidden
from kubekit.resources import Event
from tests.kit.orderstates import workload

if TYPE_CHECKING:
    from kubekit.client import Client

LACKING, WHOLE = workload(replicas=2), workload(replicas=1)
LACKING = msgspec.structs.replace(LACKING, status=msgspec.structs.replace(LACKING.status, replicas=1))


def event(reason: str, message: str, second: int = 0) -> Event:
    when = f"2026-01-01T00:00:{second:02}Z"
    raw = {"reason": reason, "message": message, "type": "Warning", "lastTimestamp": when}
    return msgspec.convert({"metadata": {"name": "e", "creationTimestamp": when}} | raw, Event)


class Server:
    """Has these events, or refuses to tell them."""

    def __init__(self, *events: Event, error: Exception | None = None) -> None:
        self.events, self.error = list(events), error
        self.selectors: list[str] = []

    async def list(self, _struct: Any, _namespace: str, *, field_selector: str) -> list[Event]:
        self.selectors.append(field_selector)
        if self.error is not None:
            raise self.error
        return self.events


REFUSED = event("FailedCreate", "create Pod failed:\n exceeded quota", 5)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], ""),
        ([REFUSED], "create Pod failed: exceeded quota"),
        ([event("SuccessfulCreate", "made", 5), REFUSED], "create Pod failed: exceeded quota"),
        ([REFUSED, event("SuccessfulCreate", "made", 6)], ""),
        ([REFUSED, event("ModelDeliveryBlocked", "something else", 7)], "create Pod failed: exceeded quota"),
        ([event("FailedCreate", "x" * 9999)], "x" * 512),
    ],
)
async def test_the_newest_refusal_is_told_until_a_pod_is_made(events: list[Event], expected: str) -> None:
    assert await missing.why(cast("Client", Server(*events)), LACKING) == expected


async def test_whose_pods_are_all_made_is_not_asked_about() -> None:
    server = Server(REFUSED)
    assert await missing.why(cast("Client", server), WHOLE) == ""
    assert await missing.why(cast("Client", server), None) == ""
    assert server.selectors == []


def test_what_is_told_already_is_looked_at_less_often_and_what_is_whole_never() -> None:
    first, then = missing.pause(LACKING, ""), missing.pause(LACKING, "quota")
    assert first is not None
    assert then is not None
    assert first < then
    assert missing.pause(WHOLE, "") is None


async def test_events_that_cannot_be_read_are_in_no_orders_way() -> None:
    server = Server(error=Forbidden(403, "Forbidden", "no right"))
    assert await missing.why(cast("Client", server), LACKING) == ""
