"""What an order runs as."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from aiinference.api.orders import OrderedAccelerator, OrderedResources
from aiinference.api.reasons import OrderCondition, OrderReason
from aiinference.orders.decide import intent, must_stop_first
from aiinference.workload import frozen
from tests.kit.ordersmodels import order, policy
from tests.kit.orderstates import accelerated, observed, planned, stopped, workload

if TYPE_CHECKING:
    from aiinference.api.orders import InferenceService
    from aiinference.orders.state import Resolved


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


def digest(resolved: Resolved | None = None, ordered: InferenceService | None = None) -> str:
    o = observed(resolved)
    wanted = intent(replace(o, order=ordered) if ordered else o)
    assert wanted is not None
    return frozen.launch_digest(wanted)


def known(**facts: Any) -> Resolved:
    found = planned(accelerated())
    assert found.model is not None
    return replace(
        found, model=replace(found.model, facts=msgspec.structs.replace(found.model.facts, **facts))
    )


def test_what_is_learnt_of_a_model_or_allowed_by_a_class_starts_nothing_again() -> None:
    before = digest(planned(accelerated()))
    for neutral in (
        known(supported_features=("Tools",)),
        known(size_bytes=1, context_window_tokens=1, family="x"),
        planned(accelerated(max_count=2)),
        planned(accelerated(allowed_device_classes=("a", "b"))),
    ):
        assert digest(neutral) == before


def test_another_model_or_another_wish_of_the_order_starts_anew() -> None:
    plain = order("qwen")
    spec = msgspec.structs.replace(plain.spec, launch_strategy="Throughput")
    wanted = OrderedResources(accelerator=OrderedAccelerator(device_classes=("a",)))
    narrowed = msgspec.structs.replace(plain.spec, resources=wanted)
    digests = [
        digest(planned(accelerated())),
        digest(known(digest="sha256:other")),
        digest(known(name="other")),
        digest(planned(accelerated()), msgspec.structs.replace(plain, spec=spec)),
        digest(planned(accelerated()), msgspec.structs.replace(plain, spec=narrowed)),
    ]
    assert len(set(digests)) == len(digests)
