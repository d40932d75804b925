"""What an order runs as, and which host it has."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from aiinference.api.orders import EndpointStatus, InferenceService, InferenceServiceStatus
from aiinference.api.reasons import OrderCondition, OrderReason
from aiinference.orders.decide import intent, must_stop_first
from aiinference.orders.hosts import host
from kubekit.resources.meta import ObjectMeta
from tests.kit.ordersmodels import order, policy
from tests.kit.orderstates import NOW, external, observed, planned, stopped, workload

TEMPLATE = "%s.example.com"


def test_an_order_that_nothing_stands_in_the_way_of_is_built() -> None:
    found = intent(observed(host="a.example.com"))
    assert found is not None
    assert (found.endpoint_type, found.host, found.replicas) == ("Chat", "a.example.com", 1)
    assert found.startup_seconds > 300


@pytest.mark.parametrize("condition", [OrderCondition.CLASS_RESOLVED, OrderCondition.PLANNED])
def test_whatever_stands_in_the_way_nothing_is_built(condition: OrderCondition) -> None:
    assert intent(observed(stopped(condition, OrderReason.NO_CAPACITY))) is None
    halted = replace(planned(), halt=stopped(condition, OrderReason.NO_CAPACITY).halt)
    assert intent(observed(halted)) is None


def test_recreate_waits_until_the_earlier_launch_is_gone() -> None:
    held = replace(policy("llm", "Chat"), update_strategy="Recreate")
    o = observed(planned(held))
    wanted = intent(o)
    assert wanted is not None
    other = {"ai.deckhouse.io/launch-digest": "sha256:other"}
    assert must_stop_first(wanted, replace(o, workload=workload(wanted, noted=other)))
    assert not must_stop_first(wanted, replace(o, workload=workload(wanted, noted=other, replicas=0)))
    assert not must_stop_first(wanted, replace(o, workload=workload(wanted)))
    assert not must_stop_first(wanted, o)
    rolling = intent(observed())
    assert rolling is not None
    assert not must_stop_first(rolling, replace(o, workload=workload(wanted, noted=other)))


def named(
    namespace: str, minutes: int = 0, domain: str | None = None, *, seen: bool = True
) -> InferenceService:
    """Return an order "chat" that was made so many minutes after the first."""
    endpoint = EndpointStatus(type="External", domain=domain)
    status = InferenceServiceStatus(endpoint=endpoint) if seen else None
    place = ObjectMeta(
        name="chat", namespace=namespace, uid=namespace, creation_timestamp=NOW + timedelta(minutes=minutes)
    )
    return msgspec.structs.replace(order("qwen"), metadata=place, status=status)


def test_a_host_is_the_orders_name_and_stays() -> None:
    mine = named("a")
    assert host(mine, external(), TEMPLATE, [mine]) == "chat.example.com"
    kept = named("a", domain="old.example.com")
    assert host(kept, external(), TEMPLATE, [kept]) == "old.example.com"


def test_a_host_that_is_taken_gets_the_namespace_too() -> None:
    mine, other = named("b"), named("a", domain="chat.example.com")
    assert host(mine, external(), TEMPLATE, [other, mine]) == "chat--b.example.com"


def test_of_two_at_once_the_first_made_gets_the_plain_host() -> None:
    first, second = named("b", seen=False), named("a", minutes=1, seen=False)
    both = [first, second]
    assert host(first, external(), TEMPLATE, both) == "chat.example.com"
    assert host(second, external(), TEMPLATE, both) == "chat--a.example.com"


def test_who_is_not_reached_from_outside_has_no_host() -> None:
    mine = named("a", domain="old.example.com")
    assert host(mine, policy("llm", "Chat"), TEMPLATE, []) is None
    assert host(mine, external(), "", []) is None
