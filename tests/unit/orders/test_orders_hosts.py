"""Which host an order has: its own, the same for ever, whatever others are called."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinference.api.orders import EndpointStatus, InferenceService, InferenceServiceStatus
from aiinference.orders.hosts import Hosts, domain
from kubekit.resources.meta import ObjectMeta
from tests.kit.ordersmodels import order, policy
from tests.kit.orderstates import NOW, external

if TYPE_CHECKING:
    from collections.abc import Sequence

TEMPLATE = "%s.example.com"


def named(
    namespace: str,
    minutes: int = 0,
    had: str | None = None,
    *,
    name: str = "chat",
    kind: str = "External",
    seen: bool = True,
) -> InferenceService:
    """Return an order that was made so many minutes after the first."""
    endpoint = EndpointStatus(type=kind, domain=had)
    status = InferenceServiceStatus(endpoint=endpoint) if seen else None
    place = ObjectMeta(
        name=name,
        namespace=namespace,
        uid=f"{namespace}/{name}",
        creation_timestamp=NOW + timedelta(minutes=minutes),
    )
    return msgspec.structs.replace(order("qwen"), metadata=place, status=status)


def host(mine: InferenceService, *others: InferenceService, template: str = TEMPLATE) -> str | None:
    return Hosts(template).host(mine, external(), [mine, *others])


def test_a_host_is_the_orders_name_and_stays() -> None:
    assert host(named("a")) == "chat.example.com"
    assert host(named("a", had="old.example.com")) == "old.example.com"


@pytest.mark.parametrize(
    ("had", "foreign"),
    [
        ("chat.example.com", False),
        ("a--b.example.com", False),
        ("chat.exampleXcom", True),
        ("chat.old.example.com", True),
        ("-chat.example.com", True),
        ("chat.wrong.test", True),
    ],
)
def test_a_host_of_another_domain_is_replaced_once_it_is_of_no_use(had: str, *, foreign: bool) -> None:
    mine, hosts = named("a", had=had), Hosts(TEMPLATE)
    assert (hosts.foreign(mine) == had) is foreign
    assert hosts.host(mine, external(), [mine]) == had
    assert Hosts("").foreign(mine) is None
    for _ in range(2):  # the status is written later
        assert hosts.host(mine, external(), [mine], unusable=True) == "chat.example.com"
    assert hosts.foreign(named("a", had=None)) is None


def test_a_host_of_another_domain_is_replaced_by_one_that_is_free() -> None:
    mine, other = named("a", had="chat.wrong.test"), named("b", had="chat.example.com")
    assert Hosts(TEMPLATE).host(mine, external(), [mine, other], unusable=True) == "chat--a.example.com"


def test_a_host_that_is_taken_gets_the_namespace_too() -> None:
    assert host(named("b"), named("a", had="chat.example.com")) == "chat--b.example.com"


def test_of_two_without_a_host_the_first_made_gets_the_plain_one() -> None:
    for seen in (False, True):
        first, second = named("b", seen=False), named("a", minutes=1, seen=seen)
        assert host(first, second) == "chat.example.com"
        assert host(second, first) == "chat--a.example.com"
        looked_at = msgspec.structs.replace(first, status=InferenceServiceStatus())
        assert host(second, looked_at) == "chat--a.example.com"


def test_who_is_not_reached_from_outside_keeps_nobody_from_a_host() -> None:
    assert host(named("a", minutes=1), named("b", kind="ClusterLocal")) == "chat.example.com"


def test_a_host_that_another_order_has_is_told_for_as_long_as_that_has_it() -> None:
    hosts, older = Hosts(TEMPLATE), named("a", had="old.example.com")
    younger = named("b", minutes=1, had="old.example.com", name="search")
    assert hosts.host(younger, external(), [older, younger]) == "search.example.com"
    moved = named("b", minutes=1, had="search.example.com", name="search")
    for _ in range(2):
        assert hosts.host(moved, external(), [older, moved]) == "search.example.com"
        assert hosts.instead(moved, "search.example.com", [older, moved]) == "old.example.com"
    assert hosts.instead(moved, "search.example.com", [moved]) is None


def test_an_order_that_never_had_its_own_name_is_told_too_by_any_process() -> None:
    mine, other = named("b", had="chat--b.example.com"), named("a", had="chat.example.com")
    assert Hosts(TEMPLATE).instead(mine, "chat--b.example.com", [mine, other]) == "chat.example.com"
    assert Hosts(TEMPLATE).instead(other, "chat.example.com", [mine, other]) is None
    assert Hosts(TEMPLATE).instead(mine, None, [mine, other]) is None


def test_what_was_given_is_given_before_any_status_says_so() -> None:
    hosts, first, second = Hosts(TEMPLATE), named("a", minutes=1, seen=False), named("b", seen=False)
    # The older one is under a class that nobody reaches from outside, and is opened a moment later.
    assert hosts.host(first, external(), [first]) == "chat.example.com"
    assert hosts.host(second, external(), [first, second]) == "chat--b.example.com"
    assert hosts.host(first, external(), [first, second]) == "chat.example.com"
    assert hosts.host(first, policy("llm", "Chat"), [first, second]) is None
    third = named("c", minutes=2, seen=False)
    local = named("a", minutes=1, kind="ClusterLocal")
    assert hosts.host(third, external(), [local, third]) == "chat.example.com", "what was given up is free"


def test_of_two_with_one_host_the_younger_loses_it() -> None:
    first = named("a", had="chat.example.com")
    second = named("b", minutes=1, had="chat.example.com")
    assert host(first, second) == "chat.example.com"
    assert host(second, first) == "chat--b.example.com"


def test_a_name_that_reads_like_another_ones_long_host() -> None:
    trap = named("z", had="chat--b.example.com", name="chat--b")
    found = host(named("b"), named("a", had="chat.example.com"), trap)
    assert found is not None
    assert found.startswith("chat-")
    assert found != "chat--b.example.com"


def test_who_is_not_reached_from_outside_has_no_host() -> None:
    mine = named("a", had="old.example.com")
    assert Hosts(TEMPLATE).host(mine, policy("llm", "Chat"), []) is None
    assert host(mine, template="") is None


def labels_fit(found: str) -> bool:
    return all(0 < len(label) <= 63 and not label.startswith("-") for label in found.split("."))


NAMES = st.one_of(
    st.sampled_from(["a", "b", "a--b", "b--a", "a--a"]),
    st.text("ab-", min_size=1, max_size=61).map(lambda text: f"x{text}x"),
)
ORDERS = st.lists(
    st.tuples(NAMES, NAMES, st.integers(0, 2)), min_size=1, max_size=6, unique_by=lambda one: one[:2]
).map(lambda parts: [named(place, at, name=name, seen=False) for place, name, at in parts])


@given(ORDERS, st.data(), st.sampled_from([TEMPLATE, "%s-llm.services.example.com"]))
def test_hosts_differ_and_stay_however_late_statuses_are_seen(
    orders: list[InferenceService], data: st.DataObject, template: str
) -> None:
    hosts, has = Hosts(template), dict[str, str]()
    for place in data.draw(st.lists(st.integers(0, len(orders) - 1), max_size=20)):
        mine = orders[place]
        found = hosts.host(mine, external(), orders)
        assert found is not None
        assert labels_fit(found)
        assert has.setdefault(mine.metadata.uid, found) == found
        assert len(set(has.values())) == len(has)
        if data.draw(st.booleans()):
            orders[place] = said(mine, found)


@given(ORDERS, st.data())
def test_hosts_that_two_have_are_one_ones_in_the_end(
    orders: list[InferenceService], data: st.DataObject
) -> None:
    domains = st.sampled_from([None, "a.example.com", "a--b.example.com", "b.example.com"])
    orders = [one if (had := data.draw(domains)) is None else said(one, had) for one in orders]
    before = {one.metadata.uid: had for one in orders if (had := domain(one)) is not None}
    hosts = Hosts(TEMPLATE)
    for _ in range(2):
        for place in data.draw(st.permutations(range(len(orders)))):
            found = hosts.host(orders[place], external(), orders)
            assert found is not None
            orders[place] = said(orders[place], found)
    assert len({domain(one) for one in orders}) == len(orders)
    for had in set(before.values()):
        assert keeper(orders, before, had) == had


def keeper(orders: Sequence[InferenceService], before: dict[str, str], host: str) -> str | None:
    """Return what the oldest of those who had a host has now."""
    had = [one for one in orders if before.get(one.metadata.uid) == host]
    return domain(min(had, key=lambda one: (str(one.metadata.creation_timestamp), one.metadata.uid)))


def said(one: InferenceService, had: str) -> InferenceService:
    endpoint = EndpointStatus(type="External", domain=had)
    return msgspec.structs.replace(one, status=InferenceServiceStatus(endpoint=endpoint))
