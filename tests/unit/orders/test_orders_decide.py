"""What an order runs as."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from aiinference.api.orders import OrderedAccelerator, OrderedResources
from aiinference.api.reasons import OrderCondition, OrderReason
from aiinference.classes.policy import Exposure, Https
from aiinference.orders.decide import intent, must_stop_first, upkeep
from aiinference.orders.report import status
from aiinference.orders.state import Resolved
from aiinference.workload import frozen, statefulset
from aiinference.workload.intent import Settings
from tests.kit.ordersmodels import order, policy
from tests.kit.orderstates import NOW, accelerated, external, observed, planned, stopped, workload

if TYPE_CHECKING:
    from aiinference.api.orders import InferenceService
    from aiinference.classes.policy import EffectivePolicy
    from aiinference.workload.intent import Upkeep


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


REFUSED = stopped(OrderCondition.MODEL_RESOLVED, OrderReason.MODEL_NOT_FOUND).halt


def running(
    first: EffectivePolicy, *, holds: EffectivePolicy | None, says: EffectivePolicy | None = None
) -> Upkeep:
    """Return how an order is kept up that was made under one policy and is refused under another."""
    made = observed(planned(first), host="a.example.com")
    wanted = intent(made)
    assert wanted is not None
    noted = statefulset.stateful_set(wanted, Settings(gate_image="gate", namespace="m"))["metadata"]
    now = replace(made, workload=workload(noted=noted["annotations"]))
    assert now.workload is not None
    record = frozen.digest(now.workload.metadata.annotations)
    known = status(now, NOW)
    later = observed(
        Resolved(REFUSED, holds, says=says), running=now.workload, earlier=known, host="a.example.com"
    )
    found = upkeep(replace(later, records=frozenset({record})))
    made_up = upkeep(later)
    assert found is not None
    assert made_up is not None
    assert made_up.template is None
    return found


def test_without_a_workload_there_is_nothing_to_keep_up() -> None:
    assert upkeep(observed(Resolved(REFUSED, policy()))) is None


LOCAL = policy("llm", "Chat")
KEYED_LOCAL = replace(external(), exposure=Exposure("ClusterLocal", "Token"))
NO_KEYS = replace(external(), exposure=Exposure("External", "None", Https("Disabled")))


@pytest.mark.parametrize(
    ("first", "holds", "says", "expected"),
    [
        (external(), external(), None, ("External", True, False)),
        (external(), KEYED_LOCAL, None, ("ClusterLocal", True, True)),
        (external(), LOCAL, None, ("ClusterLocal", True, True)),
        (external(), NO_KEYS, None, ("External", True, False)),
        (external(), None, KEYED_LOCAL, ("ClusterLocal", True, True)),
        (external(), None, external(), ("ClusterLocal", True, False)),
        (external(), None, None, ("ClusterLocal", True, False)),
        (NO_KEYS, external(), None, ("ClusterLocal", False, True)),
        (LOCAL, external(), None, ("ClusterLocal", False, True)),
        (LOCAL, NO_KEYS, None, ("ClusterLocal", False, False)),
        (KEYED_LOCAL, external(), None, ("ClusterLocal", True, False)),
    ],
)
def test_what_runs_may_be_closed_and_never_opened(
    first: EffectivePolicy,
    holds: EffectivePolicy | None,
    says: EffectivePolicy | None,
    expected: tuple[str, bool, bool],
) -> None:
    """An Ingress is made again under a class that holds, deleted when one wants so, else left as it is."""
    found = running(first, holds=holds, says=says)
    assert (found.policy.exposure.type, found.keys, found.closed) == expected
    assert found.host == ("a.example.com" if expected[0] == "External" else None)
    assert found.template is not None


def test_what_runs_keeps_its_number_and_its_strategy_while_no_class_holds() -> None:
    several = replace(external(), min_replicas=3, update_strategy="OnDelete")
    assert running(several, holds=None).replicas == 3
    held = running(external(), holds=several)
    assert (held.replicas, held.policy.update_strategy) == (3, "OnDelete")


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
