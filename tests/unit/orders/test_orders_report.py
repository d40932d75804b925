"""What is said of an order."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinference.api.reasons import OrderCondition, OrderPhase, OrderReason
from aiinference.classes.policy import Exposure
from aiinference.orders import decide
from aiinference.orders.decide import intent
from aiinference.orders.report import status
from aiinference.orders.state import Halt, Resolved
from aiinference.probes.health import Health
from aiinference.workload import names, pods, statefulset
from aiinference.workload.intent import Settings
from kubekit.conditions import find
from kubekit.resources import Pod
from kubekit.resources.workloads import StatefulSetSpec
from tests.kit.ordersmodels import policy
from tests.kit.orderstates import (
    KEYED,
    LATER,
    NOW,
    accelerated,
    external,
    observed,
    planned,
    pod,
    stopped,
    workload,
)

if TYPE_CHECKING:
    from aiinference.api.orders import InferenceServiceStatus
    from aiinference.classes.policy import EffectivePolicy
    from aiinference.orders.state import Observation
    from kubekit.resources import StatefulSet

CURRENT = OrderCondition.RUNTIME_CURRENT
WELL, ILL = Health(well=True, ready_time=NOW), Health(well=False, wrong="refused", ready_time=NOW)


def said(found: InferenceServiceStatus) -> dict[str, tuple[str, str]]:
    return {one.type: (one.status, one.reason) for one in found.conditions}


def at(found: InferenceServiceStatus, type_: OrderCondition) -> tuple[str, str]:
    condition = find(found.conditions, type_)
    assert condition is not None
    return condition.reason, condition.message


@pytest.mark.parametrize(
    ("condition", "reason", "before"),
    [
        (OrderCondition.CLASS_RESOLVED, OrderReason.CLASS_NOT_FOUND, []),
        (OrderCondition.MODEL_RESOLVED, OrderReason.MODEL_NOT_READY, ["ClassResolved"]),
        (OrderCondition.PLANNED, OrderReason.NO_CAPACITY, ["ClassResolved"]),
    ],
)
def test_what_stops_the_sequence_is_the_reason_of_ready(
    condition: OrderCondition, reason: OrderReason, before: list[str]
) -> None:
    held = policy() if before else None
    found = status(observed(stopped(condition, reason, held=held)), NOW)
    assert found.phase == OrderPhase.PENDING
    assert said(found) == {one: ("True", one) for one in before} | {
        condition: ("False", reason),
        "Ready": ("False", reason),
    }
    assert found.endpoint is None
    assert found.auth_secret_name is None


def test_a_class_that_is_looked_at_just_now_does_not_take_back_that_it_held() -> None:
    before = status(observed(running=workload(), health=WELL), NOW)
    halt = stopped(OrderCondition.CLASS_RESOLVED, OrderReason.CLASS_NOT_READY, outage=True)
    found = said(status(observed(halt, running=workload(), health=WELL, earlier=before), LATER))
    assert found["ClassResolved"] == ("True", "ClassResolved")
    assert found["Ready"] == ("True", "Ready")


def test_a_refused_object_is_said_of_the_runtime() -> None:
    halt = stopped(OrderCondition.RUNTIME_CURRENT, OrderReason.OBJECT_CONFLICT).halt
    found = status(observed(replace(planned(), halt=halt)), NOW)
    assert said(found) == {
        "ClassResolved": ("True", "ClassResolved"),
        "ModelResolved": ("True", "ModelResolved"),
        "RuntimeCurrent": ("False", "ObjectConflict"),
        "Ready": ("False", "ObjectConflict"),
    }


def test_an_outage_does_not_take_back_what_was_known() -> None:
    outage = stopped(
        OrderCondition.MODEL_RESOLVED, OrderReason.CATALOG_UNAVAILABLE, outage=True, held=policy()
    )
    new = status(observed(outage), NOW)
    assert said(new)["ModelResolved"] == ("False", "CatalogUnavailable")
    earlier = status(observed(running=workload(ready=1), health=WELL), NOW)
    later = status(observed(outage, running=workload(ready=1), health=WELL, earlier=earlier), LATER)
    assert later == earlier


def test_an_answer_that_is_waited_for_takes_nothing_back_and_says_so_where_nothing_was_said() -> None:
    halt = stopped(OrderCondition.MODEL_RESOLVED, OrderReason.CATALOG_UNAVAILABLE, outage=True).halt
    assert halt is not None
    waiting = Resolved(replace(halt, waits=True), policy())
    assert said(status(observed(waiting), NOW))["Ready"] == ("False", "CatalogUnavailable")
    refused = stopped(OrderCondition.MODEL_RESOLVED, OrderReason.MODEL_NOT_READY, held=policy())
    before = status(observed(refused), NOW)
    assert status(observed(waiting, earlier=before), LATER) == before


@pytest.mark.parametrize(
    ("condition", "held"),
    [
        (OrderCondition.MODEL_RESOLVED, policy()),
        (OrderCondition.MODEL_RESOLVED, external()),
        (OrderCondition.MODEL_RESOLVED, accelerated()),
        (OrderCondition.PLANNED, accelerated()),
    ],
)
def test_an_answer_that_is_waited_for_changes_nothing_of_what_is_said_of_a_running_order(
    condition: OrderCondition, held: EffectivePolicy
) -> None:
    running = {
        "name": "runtime",
        "started": False,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }
    o = observed(planned(held), running=workload(), pods=(pod(containerStatuses=[running]),), host="h")
    wanted = decide.intent(o)
    assert wanted is not None
    noted = statefulset.stateful_set(wanted, Settings(gate_image="gate", namespace="m"))
    made = msgspec.convert({"template": noted["spec"]["template"], "replicas": 1}, StatefulSetSpec)
    o = replace(o, workload=msgspec.structs.replace(workload(wanted), spec=made))
    before = status(o, NOW)
    known = msgspec.structs.replace(o.order, status=before)
    halt = Halt(condition, OrderReason.PENDING, "It has been asked.", outage=True, waits=True)
    model = o.resolved.model if condition is OrderCondition.PLANNED else None
    waiting = replace(o, order=known, resolved=Resolved(halt, held, model))
    assert status(waiting, LATER) == before


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (OrderCondition.PLANNED, OrderReason.NO_CAPACITY),
        (OrderCondition.RUNTIME_CURRENT, OrderReason.CERTIFICATE_MISSING),
        (OrderCondition.RUNTIME_CURRENT, OrderReason.OBJECT_CONFLICT),
    ],
)
@pytest.mark.parametrize("running", [None, workload(), workload(ready=1)])
@pytest.mark.parametrize("waited", [OrderCondition.CLASS_RESOLVED, OrderCondition.MODEL_RESOLVED])
def test_an_answer_that_is_waited_for_changes_nothing_of_what_an_order_was_refused_for(
    condition: OrderCondition, reason: OrderReason, running: StatefulSet | None, waited: OrderCondition
) -> None:
    held, refused = accelerated(), stopped(condition, reason).halt
    known = planned(held)
    found = replace(known, halt=refused, plan=None if condition is OrderCondition.PLANNED else known.plan)
    before = status(observed(found, running=running), NOW)
    halt = Halt(waited, OrderReason.PENDING, "It has been asked.", outage=True, waits=True)
    policy_now = None if waited is OrderCondition.CLASS_RESOLVED else held
    assert status(observed(Resolved(halt, policy_now), running=running, earlier=before), LATER) == before


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (OrderCondition.CLASS_RESOLVED, OrderReason.CLASS_NOT_FOUND),
        (OrderCondition.MODEL_RESOLVED, OrderReason.MODEL_NOT_FOUND),
        (OrderCondition.PLANNED, OrderReason.QUANTIZATION_MISMATCH),
    ],
)
def test_what_runs_is_judged_by_its_answers_whatever_is_refused(
    condition: OrderCondition, reason: OrderReason
) -> None:
    earlier = status(observed(planned(external()), running=workload(ready=1), health=WELL, host="h"), NOW)
    refused = stopped(condition, reason, held=None)
    found = status(observed(refused, running=workload(ready=1), health=WELL, earlier=earlier), LATER)
    assert found.phase == OrderPhase.READY
    assert said(found)[condition] == ("False", reason)
    assert said(found)["Ready"] == ("True", "Ready")
    assert (found.endpoint, found.auth_secret_name, found.model) == (
        earlier.endpoint,
        "support-llm-auth",
        earlier.model,
    )


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (replace(external(), exposure=Exposure("ClusterLocal", "Token")), ("ClusterLocal", None, None)),
        (external(), ("External", "https://h", "h")),
        (policy(), ("ClusterLocal", None, None)),
    ],
)
def test_an_order_that_its_class_closes_is_closed_whatever_is_refused(
    wanted: EffectivePolicy, expected: tuple[str, str | None, str | None]
) -> None:
    running = workload(ready=1, template=KEYED)
    earlier = status(observed(planned(external()), running=running, health=WELL, host="h"), NOW)
    halt = stopped(OrderCondition.MODEL_RESOLVED, OrderReason.MODEL_NOT_FOUND).halt
    for refused in (Resolved(halt, wanted), Resolved(halt, says=wanted)):
        o = observed(refused, running=running, health=WELL, earlier=earlier, host="h")
        found = status(o, LATER)
        assert found.endpoint is not None
        assert (found.endpoint.type, found.endpoint.url, found.endpoint.domain) == expected
        assert found.endpoint.in_cluster_url == "http://support-llm.support.svc"
        assert found.auth_secret_name == "support-llm-auth"


def test_what_keeping_up_has_met_is_said_beside_what_is_refused() -> None:
    earlier = status(observed(running=workload(ready=1), health=WELL), NOW)
    refused = stopped(OrderCondition.MODEL_RESOLVED, OrderReason.MODEL_NOT_FOUND)
    met = stopped(OrderCondition.RUNTIME_CURRENT, OrderReason.OBJECT_REFUSED).halt
    o = observed(refused, running=workload(ready=1), health=WELL, earlier=earlier)
    found = said(status(replace(o, acted=met), LATER))
    assert found["ModelResolved"] == ("False", "ModelNotFound")
    assert found["RuntimeCurrent"] == ("False", "ObjectRefused")
    assert found["Ready"] == ("True", "Ready")


def test_before_the_first_answer_it_is_said_what_keeps_the_pods() -> None:
    waiting = {"name": "runtime", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}}
    found = status(observed(running=workload(), pods=(pod(containerStatuses=[waiting]),)), NOW)
    assert at(found, OrderCondition.READY)[0] == "ImagePullFailed"
    assert found.phase == OrderPhase.PENDING
    starting = status(observed(running=workload()), NOW)
    assert at(starting, OrderCondition.READY) == ("Starting", "0 of 1 replicas are ready.")
    silent = status(observed(running=workload(ready=1), health=Health(wrong="It was silent.")), NOW)
    assert at(silent, OrderCondition.READY)[0] == "HealthCheckFailed"
    assert silent.phase == OrderPhase.PENDING


def test_pods_that_are_refused_are_told_in_the_clusters_words() -> None:
    quoted = 'pods "support-llm-0" is forbidden: exceeded quota: none, used: pods={}'
    found = status(observed(running=workload(), refused=quoted.format(1)), NOW)
    reason, message = at(found, OrderCondition.READY)
    assert (reason, found.phase) == ("ObjectRefused", OrderPhase.PENDING)
    assert message == f"Pods of the order are refused: {quoted.format(1)}"
    other = status(observed(running=workload(), refused=quoted.format(2), earlier=found), LATER)
    assert at(other, OrderCondition.READY)[1].endswith("pods=2"), "of a quota the numbers are news"
    hook = 'admission webhook "a" denied the request: id {}'
    first = status(observed(running=workload(), refused=hook.format(1)), NOW)
    assert status(observed(running=workload(), refused=hook.format(2), earlier=first), LATER) == first
    gone = status(observed(running=workload(), earlier=found), LATER)
    assert at(gone, OrderCondition.READY)[0] == "Starting"


def test_replicas_that_are_missing_beside_others_are_told_too() -> None:
    found = status(observed(running=workload(ready=1, replicas=3), refused="too many", health=WELL), NOW)
    assert said(found)["WorkloadReady"] == ("False", "ObjectRefused")
    assert found.phase == OrderPhase.READY


def test_an_order_that_answered_and_fails_has_failed() -> None:
    found = status(observed(running=workload(ready=1), health=ILL), NOW)
    assert found.phase == OrderPhase.FAILED
    assert at(found, OrderCondition.READY)[0] == "ServiceUnhealthy"


def test_replicas_that_are_being_replaced() -> None:
    found = status(observed(running=workload(ready=1, updated=0), health=WELL), NOW)
    assert said(found)["RuntimeCurrent"] == ("False", "Updating")
    assert found.phase == OrderPhase.READY


def test_who_has_to_replace_replicas_by_hand_is_told_so() -> None:
    running = workload(ready=1, updated=0)
    strategy = msgspec.structs.replace(running.spec.update_strategy, type="OnDelete")
    spec = msgspec.structs.replace(running.spec, update_strategy=strategy)
    by_hand = msgspec.structs.replace(running, spec=spec)
    told = at(status(observed(running=by_hand, health=WELL), NOW), OrderCondition.RUNTIME_CURRENT)
    assert "Delete the Pods of the others" in told[1]
    other = at(status(observed(running=running, health=WELL), NOW), OrderCondition.RUNTIME_CURRENT)
    assert other == ("Updating", "0 of 1 replicas run as planned.")


def test_a_host_that_another_order_has_is_told_for_as_long_as_it_has_it() -> None:
    running = workload(ready=1, template=KEYED)
    o = observed(planned(external()), running=running, health=WELL, host="b.example.com")
    found = at(status(replace(o, instead="a.example.com"), NOW), OrderCondition.RUNTIME_CURRENT)[1]
    told = "Host a.example.com is that of another, older order, so this one has b.example.com."
    assert found == f"All replicas run as planned. {told}"
    assert at(status(o, NOW), OrderCondition.RUNTIME_CURRENT)[1] == "All replicas run as planned."


def test_an_order_without_a_class() -> None:
    found = status(observed(planned(policy(None))), NOW)
    assert said(found)["ClassResolved"] == ("True", "BuiltInPolicy")
    assert found.model is None
    assert "Planned" not in said(found)


def test_a_plan_is_shown_under_a_class_with_an_accelerator_policy_only() -> None:
    plain = status(observed(), NOW)
    assert plain.resolved is None
    assert "Planned" not in said(plain)
    found = status(observed(planned(accelerated())), NOW)
    assert said(found)["Planned"] == ("True", "LaunchPlanCalculated")
    assert found.resolved is not None
    assert found.resolved.device_class == "cpu"
    assert found.share is None


def test_addresses() -> None:
    inside = status(observed(), NOW).endpoint
    assert inside is not None
    assert (inside.type, inside.url, inside.in_cluster_url) == (
        "ClusterLocal",
        None,
        "http://support-llm.support.svc",
    )
    outside = status(observed(planned(external()), host="a.example.com"), NOW)
    assert outside.endpoint is not None
    assert (outside.endpoint.url, outside.endpoint.domain) == ("https://a.example.com", "a.example.com")
    assert outside.auth_secret_name == "support-llm-auth"
    plain = status(observed(planned(external("Disabled")), host="a.example.com"), NOW)
    assert plain.endpoint is not None
    assert plain.endpoint.url == "http://a.example.com"


def test_a_newer_plan_is_shown_when_the_replicas_run_by_it() -> None:
    first = planned(accelerated())
    assert first.plan is not None
    running = workload(ready=1, noted={names.PLAN_ANNOTATION: first.plan.digest})
    shown = status(observed(first, running=running, health=WELL), NOW)
    elsewhere = msgspec.structs.replace(first.plan.resolved, device_class="big", share_percent=50)
    recipe = msgspec.structs.replace(first.plan.recipe, name="other")
    newer = msgspec.structs.replace(
        first.plan, resolved=elsewhere, recipe=recipe, digest=f"sha256:{'2' * 64}"
    )
    second = replace(first, plan=newer)
    later = status(observed(second, running=running, health=WELL, earlier=shown), LATER)
    assert later == shown
    refused = stopped(OrderCondition.PLANNED, OrderReason.NO_CAPACITY, held=accelerated())
    between = status(observed(refused, running=running, health=WELL, earlier=shown), LATER)
    again = status(observed(second, running=running, health=WELL, earlier=between), LATER)
    assert (again.resolved, again.share) == (shown.resolved, shown.share)
    text = "The launch is planned; what runs goes on by the plan that it was started with."
    assert at(again, OrderCondition.PLANNED) == ("LaunchPlanCalculated", text)
    restarted = workload(ready=1, noted={names.PLAN_ANNOTATION: newer.digest})
    after = status(observed(second, running=restarted, health=WELL, earlier=again), LATER)
    assert after.resolved is not None
    assert (after.resolved.device_class, after.share) == ("big", "50%")
    assert at(after, OrderCondition.PLANNED)[1] == "The launch is planned, by recipe other."


@pytest.mark.parametrize(
    ("template", "volumes", "url"),
    [
        (KEYED, ("tmp", "keys"), "https://h"),
        (KEYED, ("tmp",), None),
        ({}, ("tmp", "keys"), None),
    ],
)
def test_an_order_that_is_closed_until_its_replicas_ask_for_the_key_has_no_address_yet(
    template: dict[str, Any], volumes: tuple[str, ...], url: str | None
) -> None:
    spec = {"volumes": [{"name": one} for one in volumes]}
    replica = msgspec.convert({"metadata": {"name": "support-llm-0"}, "spec": spec}, Pod)
    running = workload(ready=1, template=template)
    found = status(observed(planned(external()), running=running, pods=(replica,), host="h"), NOW)
    assert found.endpoint is not None
    assert (found.endpoint.type, found.endpoint.domain, found.endpoint.url) == ("External", "h", url)
    told = "It has no address outside until every replica asks for the key" in at(found, CURRENT)[1]
    assert told is (url is None)
    part = msgspec.structs.replace(running.status, updated_replicas=0)
    updating = msgspec.structs.replace(running, status=part)
    o = observed(planned(external()), running=updating, pods=(replica,), host="h")
    assert ("until every replica asks" in at(status(o, NOW), CURRENT)[1]) is told
    waits = Halt(OrderCondition.MODEL_RESOLVED, OrderReason.PENDING, "Asked.", outage=True, waits=True)
    waiting = Resolved(waits, external())
    later = observed(waiting, running=running, pods=(replica,), host="h", earlier=found)
    assert status(later, LATER).endpoint == found.endpoint


def test_an_outside_without_a_domain_has_no_address() -> None:
    found = status(observed(planned(external())), NOW).endpoint
    assert found is not None
    assert (found.type, found.url) == ("External", None)


HALTS = st.sampled_from(
    [
        stopped(OrderCondition.CLASS_RESOLVED, OrderReason.CLASS_NOT_READY),
        stopped(OrderCondition.MODEL_RESOLVED, OrderReason.MODEL_NOT_FOUND, held=policy()),
        stopped(OrderCondition.MODEL_RESOLVED, OrderReason.CATALOG_UNAVAILABLE, outage=True, held=policy()),
        stopped(OrderCondition.PLANNED, OrderReason.PLANNER_UNAVAILABLE, outage=True, held=accelerated()),
        planned(),
        planned(policy(None)),
        planned(accelerated()),
    ]
)
OBSERVED = st.builds(
    observed,
    HALTS,
    running=st.sampled_from([None, workload(), workload(ready=1), workload(updated=0, replicas=0)]),
    health=st.sampled_from([Health(), WELL, ILL]),
)


@given(OBSERVED, OBSERVED)
def test_saying_the_same_again_changes_nothing(first: Observation, second: Observation) -> None:
    before = status(first, NOW)
    one = status(
        observed(second.resolved, running=second.workload, health=second.health, earlier=before), NOW
    )
    again = observed(second.resolved, running=second.workload, health=second.health, earlier=one)
    assert status(again, LATER) == one
    assert find(one.conditions, "Ready") is not None
    assert (one.phase == OrderPhase.READY) == (said(one)["Ready"][0] == "True")


def test_the_deadline_of_a_start_does_not_change_while_the_catalogue_is_asked() -> None:
    resolved = planned()
    wanted = intent(observed(resolved))
    assert wanted is not None
    made = workload(wanted)
    template = pods.template(wanted, Settings(gate_image="gate"))
    running = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, template=template))
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": NOW}
    loads = pod(conditions=[scheduled], containerStatuses=[_running()])
    told = status(observed(resolved, running=running, pods=(loads,)), LATER).startup
    away = stopped(OrderCondition.MODEL_RESOLVED, OrderReason.CATALOG_UNAVAILABLE, outage=True)
    assert told is not None
    assert told.deadline == NOW + timedelta(seconds=wanted.startup_seconds)
    assert status(observed(away, running=running, pods=(loads,)), LATER).startup == told


def _running() -> dict[str, Any]:
    state = {"running": {"startedAt": NOW}}
    named = {"name": names.RUNTIME, "image": "x", "imageID": "x"}
    return named | {"ready": False, "started": False, "restartCount": 0, "state": state}
