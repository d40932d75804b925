"""What is written for an order, and when nothing is."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from aiinference.api.reasons import OrderCondition, OrderReason
from aiinference.classes.policy import EffectivePolicy, Exposure, Https
from aiinference.orders.decide import intent
from aiinference.orders.monitors import FRESH_SECONDS
from aiinference.orders.report import status
from aiinference.orders.standing import REPAIR_SECONDS
from aiinference.orders.state import Halt, Resolved
from aiinference.workload import frozen, names, statefulset
from aiinference.workload.intent import Settings
from kubekit.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    TooManyRequests,
)
from kubekit.resources import Pod, Secret
from kubekit.resources.meta import ObjectMeta, OwnerReference
from tests.kit.ordersactor import UID, World
from tests.kit.ordersmodels import policy
from tests.kit.orderstates import NOW, external, observed, planned, stopped, workload

SETTINGS = Settings(gate_image="gate", namespace="m")


@pytest.fixture
def world() -> World:
    return World()


OPEN = planned(external())


async def test_everything_is_written_once(world: World) -> None:
    o = observed(OPEN, host="a.example.com")
    assert await world.act(o) is None
    kinds = [kind for kind, _ in world.server.written]
    assert kinds == [
        "Secret",
        "NetworkPolicy",
        "Role",
        "Service",
        "StatefulSet",
        "PodDisruptionBudget",
        "Ingress",
    ]


async def test_nothing_is_written_while_nothing_differs(world: World) -> None:
    o = observed(planned())
    await world.act(o)
    world.server.written.clear()
    running = replace(o, workload=workload(noted=world.server.noted))
    await world.act(running)
    assert world.server.written == []
    await world.clock.advance(REPAIR_SECONDS)
    await world.act(running)
    assert world.server.written, "after a while everything is made so again"


async def test_a_workload_that_somebody_changed_is_written_again(world: World) -> None:
    o = observed(planned())
    await world.act(o)
    world.server.written.clear()
    found = workload(noted=world.server.noted)
    changed = msgspec.structs.replace(found.metadata, generation=2)
    await world.act(replace(o, workload=msgspec.structs.replace(found, metadata=changed)))
    assert ("StatefulSet", "support-llm") in world.server.written


async def test_a_workload_whose_labels_somebody_has_taken_off_is_written_again(world: World) -> None:
    await world.act(observed(planned()))
    world.server.written.clear()
    found = workload(noted=world.server.noted)
    bare = msgspec.structs.replace(found.metadata, labels={names.ORDER_LABEL: "support-llm"})
    await world.act(observed(planned(), running=msgspec.structs.replace(found, metadata=bare)))
    assert ("StatefulSet", "support-llm") in world.server.written


async def test_nobody_is_let_in_while_it_is_not_known_what_a_lost_workload_has_left_behind(
    world: World,
) -> None:
    lost = replace(observed(OPEN, host="a.example.com"), records=frozenset({"sha256:earlier"}))
    await world.act(lost)
    assert ("StatefulSet", "support-llm") in world.server.written
    assert ("Ingress", "support-llm") not in world.server.written
    await world.act(replace(lost, workload=workload(noted=world.server.noted)))
    assert ("Ingress", "support-llm") in world.server.written


async def test_a_record_that_somebody_made_up_is_made_again_from_the_plan(world: World) -> None:
    o = observed(planned())
    await world.act(o)
    before = world.server.template
    evil = json.loads(world.server.noted[names.TEMPLATE_ANNOTATION])
    evil["spec"]["containers"][0]["command"] = ["/bin/evil"]
    noted = world.server.noted | {names.TEMPLATE_ANNOTATION: json.dumps(evil)}
    world.server.written.clear()
    await world.act(replace(o, workload=workload(noted=noted)))
    assert ("StatefulSet", "support-llm") in world.server.written
    assert world.server.template == before
    assert "evil" not in world.server.noted[names.TEMPLATE_ANNOTATION]


async def test_without_a_plan_what_somebody_made_up_is_not_used(world: World) -> None:
    halt = stopped(OrderCondition.PLANNED, OrderReason.NO_CAPACITY).halt
    await world.act(observed(Resolved(halt, policy("llm", "Chat")), running=workload(noted={"a": "b"})))
    assert ("Service", "support-llm") in world.server.written
    assert ("StatefulSet", "support-llm") not in world.server.written


async def test_objects_that_are_not_the_orders_stop_it(world: World) -> None:
    world.server.owners["/api/v1/namespaces/support/services/support-llm"] = "somebody"
    found = await world.act(observed(planned()))
    assert isinstance(found, Halt)
    assert found.reason is OrderReason.OBJECT_CONFLICT
    assert found.message.startswith("Service support-llm is there already")
    assert world.server.written == []


async def test_what_an_order_has_no_more_is_deleted_if_it_is_its_own(world: World) -> None:
    ingress = "/apis/networking.k8s.io/v1/namespaces/support/ingresses/support-llm"
    world.server.owners[ingress] = "somebody"
    await world.act(observed(planned()))
    assert not [kind for kind, _ in world.server.written if kind.startswith("delete")]
    world.server.owners[ingress] = UID
    world.actor.forget(("support", "support-llm"))
    await world.act(observed(planned()))
    assert ("delete Ingress", "support-llm") in world.server.written


INGRESS = "/apis/networking.k8s.io/v1/namespaces/support/ingresses/support-llm"


async def test_what_closes_an_order_is_not_kept_from_it_by_anything_else(world: World) -> None:
    world.server.owners["/api/v1/namespaces/support/services/support-llm"] = "somebody"
    world.server.owners[INGRESS] = UID
    found = await world.act(observed(planned()))
    assert isinstance(found, Halt)
    assert world.server.written == [("delete Ingress", "support-llm")]


async def test_what_runs_is_kept_up_while_a_plan_is_refused(world: World) -> None:
    o = observed(OPEN, host="a.example.com")
    wanted = intent(o)
    assert wanted is not None
    noted = statefulset.stateful_set(wanted, SETTINGS)["metadata"]["annotations"]
    known = status(replace(o, workload=workload(noted=noted)), NOW)
    halt = stopped(OrderCondition.PLANNED, OrderReason.NO_CAPACITY).halt
    refused = observed(
        Resolved(halt, external()), running=workload(noted=noted), earlier=known, host="a.example.com"
    )
    refused = replace(refused, records=frozenset({frozen.digest(noted)}))
    world.server.owners[INGRESS] = UID
    await world.act(refused)
    assert [kind for kind, _ in world.server.written] == [
        *("Secret", "NetworkPolicy", "Role", "Service", "StatefulSet", "PodDisruptionBudget", "Ingress")
    ]
    world.server.written.clear()
    await world.act(refused)
    assert [kind for kind, _ in world.server.written] == ["Secret"], "which it is not shown"
    world.server.written.clear()
    await world.act(replace(refused, resolved=Resolved(halt, says=policy("llm", "Chat"))))
    assert ("delete Ingress", "support-llm") in world.server.written
    assert ("delete Role", "support-llm-auth-reader") not in world.server.written


async def test_objects_of_an_earlier_order_of_the_name_are_waited_for(world: World) -> None:
    path = "/api/v1/namespaces/support/services/support-llm"
    world.server.owners[path] = "earlier"
    world.server.kinds[path] = ("InferenceService", "support-llm")
    found = await world.act(observed(planned()))
    assert isinstance(found, Halt)
    assert (found.reason, found.soon) == (OrderReason.OBJECT_CONFLICT, True)
    assert "earlier order" in found.message


async def test_a_refusal_of_the_api_server_is_told(world: World) -> None:
    world.server.error = Forbidden(403, "Forbidden", "exceeded quota")
    found = await world.act(observed(planned()))
    assert isinstance(found, Halt)
    assert found.reason is OrderReason.OBJECT_REFUSED
    assert "exceeded quota" in found.message
    assert found.passing


@pytest.mark.parametrize(
    ("error", "soon"),
    [
        (BadRequest(400, "BadRequest", "the webhook says no"), False),
        (NotFound(404, "NotFound", "the webhook says no"), False),
        (ServerError(500, "InternalError", "the webhook says no"), True),
        (TooManyRequests(429, "TooManyRequests", "the webhook says no"), True),
        (Forbidden(403, "Forbidden", "the webhook says no"), False),
    ],
)
async def test_whatever_the_api_server_says_is_told(world: World, error: Exception, *, soon: bool) -> None:
    world.server.error = error
    found = await world.act(observed(planned()))
    assert isinstance(found, Halt)
    assert (found.condition, found.reason) == (OrderCondition.RUNTIME_CURRENT, OrderReason.OBJECT_REFUSED)
    assert "the webhook says no" in found.message
    assert (found.passing, found.soon) == (True, soon)


@pytest.mark.parametrize(
    ("first", "then", "same"),
    [
        (
            ServerError(500, "", "from 10.0.0.1:4711: reset"),
            ServerError(500, "", "from 10.0.0.1:99: reset"),
            True,
        ),
        (ServerError(500, "", "from 10.0.0.1:4711: reset"), ServerError(500, "", "no such host"), False),
        (Forbidden(403, "", "exceeded quota: used 1"), Forbidden(403, "", "exceeded quota: used 2"), False),
    ],
)
async def test_a_refusal_that_differs_in_an_identifier_only_is_said_the_same(
    world: World, first: Exception, then: Exception, *, same: bool
) -> None:
    texts = []
    earlier = None
    for error in (first, then):
        world.server.error = error
        o = observed(planned(), earlier=earlier)
        found = await world.act(o)
        assert isinstance(found, Halt)
        earlier = status(replace(o, resolved=replace(o.resolved, halt=found)), NOW)
        texts.append(found.message)
    assert (texts[0] == texts[1]) is same


@pytest.mark.parametrize("kind", [Conflict, AlreadyExists])
async def test_what_was_read_too_early_is_read_again_and_no_refusal(
    world: World, kind: type[ApiError]
) -> None:
    world.server.error = kind(409, "Conflict", "changed")
    with pytest.raises(kind):
        await world.act(observed(planned()))


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("PodMonitor", NotFound(404, "NotFound", "no such kind")),
        ("GET", Forbidden(403, "Forbidden", "no right")),
    ],
)
async def test_metrics_that_cannot_be_read_are_in_no_orders_way(where: str, error: Exception) -> None:
    world = World(monitoring_namespaces=("d8-monitoring",))
    world.server.monitors = ["podmonitors"]
    world.server.errors[where] = error
    assert await world.act(observed(planned())) is None
    assert ("StatefulSet", "support-llm") in world.server.written
    world.server.written.clear()
    assert await world.act(observed(planned(), running=workload(noted=world.server.noted))) is None
    assert world.server.written == [], "it is not tried again all the time"


def replica(*volumes: str) -> Pod:
    spec = {"volumes": [{"name": name} for name in volumes]}
    return msgspec.convert({"metadata": {"name": "support-llm-0"}, "spec": spec}, Pod)


async def test_nobody_is_let_in_from_outside_before_the_replicas_ask_for_the_key(world: World) -> None:
    o = observed(OPEN, host="a.example.com", pods=(replica("tmp"), replica("tmp", "keys")))
    await world.act(o)
    assert ("StatefulSet", "support-llm") in world.server.written
    assert ("Ingress", "support-llm") not in world.server.written
    replaced = replace(o, pods=(replica("tmp", "keys"),), workload=workload(noted=world.server.noted))
    await world.act(replaced)
    assert ("Ingress", "support-llm") in world.server.written
    world.server.owners[INGRESS] = UID
    world.server.written.clear()
    await world.act(replace(o, workload=replaced.workload))
    assert world.server.written[0] == ("delete Ingress", "support-llm"), "somebody has taken a replica back"


@pytest.mark.parametrize("how", ["OnDelete", "refused", "planner away"])
async def test_what_is_open_without_a_key_is_closed_once_a_class_wants_one(world: World, how: str) -> None:
    free = replace(external(), exposure=Exposure("External", "None", Https("Disabled")))
    wanted = replace(external(), update_strategy="OnDelete" if how == "OnDelete" else "RollingUpdate")
    made = observed(planned(free), host="a.example.com")
    earlier = intent(made)
    assert earlier is not None
    noted = statefulset.stateful_set(earlier, SETTINGS)["metadata"]["annotations"]
    running = replace(made, workload=workload(noted=noted, ready=1), pods=(replica("tmp"),))
    # A plan is there, and the status names a key that no replica asks for yet.
    known = status(replace(running, resolved=planned(wanted)), NOW)
    assert known.auth_secret_name is not None
    world.server.owners[INGRESS] = UID
    if how == "refused":
        world.server.errors["StatefulSet"] = Forbidden(403, "Forbidden", "exceeded quota")
    away = stopped(OrderCondition.PLANNED, OrderReason.PLANNER_UNAVAILABLE, outage=True, held=wanted)
    o = observed(
        away if how == "planner away" else planned(wanted),
        running=running.workload,
        pods=running.pods,
        earlier=known,
        host="a.example.com",
    )
    await world.act(replace(o, records=frozenset({frozen.digest(noted)})))
    assert ("delete Ingress", "support-llm") in world.server.written
    assert ("Ingress", "support-llm") not in world.server.written


LOCAL = replace(external(), exposure=Exposure("ClusterLocal", "Token"))
COPIED = replace(
    external(), exposure=Exposure("External", "Token", Https("CustomCertificate", secret_name="s"))
)
NO = Forbidden(403, "Forbidden", "the quota says no")


@pytest.mark.parametrize(
    ("now", "what", "written"),
    [
        (LOCAL, "create Secret", {"delete Ingress", "Service", "StatefulSet"}),
        (LOCAL, "Secret", {"delete Ingress", "Service", "StatefulSet"}),
        (LOCAL, "delete Ingress", {"Secret", "Service", "StatefulSet"}),
        (COPIED, "find Secret", {"Secret", "Service", "StatefulSet"}),
        (LOCAL, "find Secret", {"delete Ingress", "Secret", "Service", "StatefulSet"}),
    ],
)
async def test_a_step_that_is_refused_keeps_no_order_from_being_closed_and_kept_up(
    world: World, now: EffectivePolicy, what: str, written: set[str]
) -> None:
    made = observed(OPEN, host="a.example.com")
    earlier = intent(made)
    assert earlier is not None
    noted = statefulset.stateful_set(earlier, SETTINGS)["metadata"]["annotations"]
    running = workload(noted=noted)
    known = status(replace(made, workload=running), NOW)
    o = observed(planned(now), running=running, earlier=known, host="a.example.com")
    if what == "Secret":
        head = ObjectMeta(name="support-llm-auth", owner_references=[OwnerReference(uid=UID)])
        o = replace(o, secret=Secret(metadata=head))
    world.server.owners[INGRESS] = UID
    world.server.errors[what] = NO
    found = await world.act(replace(o, records=frozenset({frozen.digest(noted)})))
    assert isinstance(found, Halt)
    assert (found.condition, found.reason) == (OrderCondition.RUNTIME_CURRENT, OrderReason.OBJECT_REFUSED)
    assert "the quota says no" in found.message
    assert written <= {kind for kind, _ in world.server.written}


@pytest.mark.parametrize("away", [False, True])
async def test_what_could_not_be_closed_is_closed_next_time_and_holds_its_host(
    world: World, *, away: bool
) -> None:
    made = observed(OPEN, host="a.example.com")
    earlier = intent(made)
    assert earlier is not None
    noted = statefulset.stateful_set(earlier, SETTINGS)["metadata"]["annotations"]
    known = status(replace(made, workload=workload(noted=noted)), NOW)
    halted = stopped(OrderCondition.PLANNED, OrderReason.PLANNER_UNAVAILABLE, outage=True, held=LOCAL)
    world.server.owners[INGRESS] = UID
    for error in (ServerError(500, "InternalError", "etcd"), NO, None):
        world.server.errors = {"delete Ingress": error} if error else {}
        o = observed(halted if away else planned(LOCAL), running=workload(noted=noted), earlier=known)
        found = await world.act(replace(o, records=frozenset({frozen.digest(noted)})))
        said = found if isinstance(found, Halt) else None
        assert (said is None) is (error is None), "it is tried every time"
        noted = world.server.noted or noted
        known = status(replace(o, acted=said), NOW)
        assert known.endpoint is not None
        kept = "a.example.com" if error else None
        assert (known.endpoint.type, known.endpoint.domain, known.endpoint.url) == (
            "ClusterLocal",
            kept,
            None,
        )
    assert ("delete Ingress", "support-llm") in world.server.written


async def test_a_copy_that_could_not_be_deleted_is_not_forgotten_while_a_model_is_asked_for(
    world: World,
) -> None:
    made = observed(OPEN, host="a.example.com")
    earlier = intent(made)
    assert earlier is not None
    noted = statefulset.stateful_set(earlier, SETTINGS)["metadata"]["annotations"]
    known = status(replace(made, workload=workload(noted=noted)), NOW)
    waits = stopped(OrderCondition.MODEL_RESOLVED, OrderReason.PENDING, outage=True, held=external())
    world.server.errors["find Secret"] = NO
    for resolved in (waits, waits, OPEN):
        o = observed(resolved, running=workload(noted=noted), earlier=known, host="a.example.com")
        found = await world.act(replace(o, records=frozenset({frozen.digest(noted)})))
        assert isinstance(found, Halt)
        assert "the quota says no" in found.message


async def test_what_the_pods_were_made_from_is_remembered_though_a_later_object_is_refused(
    world: World,
) -> None:
    world.server.errors["Ingress"] = NO
    assert isinstance(await world.act(observed(OPEN, host="a.example.com")), Halt)
    order = ObjectMeta(name="support-llm", namespace="support", uid=UID)
    assert world.actor.record(order) == frozen.digest(world.server.noted)
    assert world.actor.record(msgspec.structs.replace(order, uid="another")) is None
    world.server.written.clear()
    world.server.errors.clear()
    running = workload(noted=world.server.noted)
    assert await world.act(observed(OPEN, running=running, host="a.example.com")) is None
    assert ("Ingress", "support-llm") in world.server.written, "the others are tried again"


async def test_of_a_new_order_nothing_is_made_while_its_certificate_is_missing(world: World) -> None:
    found = await world.act(observed(planned(COPIED), host="a.example.com"))
    assert isinstance(found, Halt)
    assert found.reason is OrderReason.CERTIFICATE_MISSING
    assert world.server.written == []


async def test_a_monitor_is_made_when_its_kind_comes_and_not_before() -> None:
    world = World(monitoring_namespaces=("d8-monitoring",))
    made = observed(planned())
    for kinds, expected in ([], False), (["servicemonitors"], False), (["podmonitors"], True):
        world.server.monitors = kinds
        await world.act(made)
        assert (("PodMonitor", "support-llm") in world.server.written) is expected
        made = observed(planned(), running=workload(noted=world.server.noted))
        await world.clock.advance(FRESH_SECONDS)
    world.server.written.clear()
    await world.act(made)
    assert world.server.written == []
    world.server.monitors = []
    await world.clock.advance(FRESH_SECONDS)
    assert await world.act(made) is None, "its kind is gone again"


@pytest.mark.parametrize(
    ("error", "soon"),
    [(Forbidden(403, "Forbidden", "no right"), False), (ServerError(500, "InternalError", "etcd"), True)],
)
async def test_a_key_that_cannot_be_read_is_told_and_nothing_is_made_in_its_place(
    world: World, error: ApiError, *, soon: bool
) -> None:
    found = await world.act(replace(observed(OPEN, host="a.example.com"), unread=error))
    assert isinstance(found, Halt)
    assert (found.condition, found.reason) == (OrderCondition.RUNTIME_CURRENT, OrderReason.OBJECT_REFUSED)
    assert found.message.startswith("The Secret support-llm-auth with the order's key cannot be read: ")
    assert str(error) in found.message
    assert (found.passing, found.soon) == (True, soon)
    assert world.server.written == []
    assert await world.act(replace(observed(planned()), unread=error)) is None, "no key is wanted"


async def test_recreate_scales_to_zero_and_writes_nothing_else(world: World) -> None:
    held = replace(policy("llm", "Chat"), update_strategy="Recreate")
    o = observed(planned(held), running=workload(noted={"ai.deckhouse.io/launch-digest": "other"}))
    found = await world.act(o)
    assert isinstance(found, Halt)
    assert found.reason is OrderReason.UPDATING
    assert world.server.written == [("StatefulSet", "support-llm")]
    (head,) = world.server.heads
    assert head["labels"] == names.labels("support-llm"), (
        "the policy has it write what is labelled as its own"
    )
    assert [(one["uid"], one["controller"]) for one in head["ownerReferences"]] == [(UID, True)]
