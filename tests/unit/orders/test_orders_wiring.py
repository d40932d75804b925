"""Which Pods an order's key goes to, whatever becomes of its objects."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

from aiinference.api.orders import EndpointStatus, InferenceService, InferenceServiceStatus
from aiinference.classes.policy import Https
from aiinference.orders import observe, wiring
from aiinference.orders.ingresses import Ingress, Rule, Spec
from aiinference.planner.plan import Recipes
from aiinference.recipes.catalogue import shipped
from aiinference.workload import names
from aiinference.workload.intent import Settings
from kubekit.errors import Forbidden, NotFound, Unreachable
from kubekit.queue import Priority
from kubekit.resources import Pod, StatefulSet
from kubekit.resources.meta import OwnerReference
from kubekit.store import Change, Store
from opskit.clock import ManualClock
from tests.kit.ordersmodels import order
from tests.kit.orderstates import external, planned, workload

if TYPE_CHECKING:
    from aiinference.orders.probing import Target
    from aiinference.orders.state import Resolved
    from kubekit.controller import Controller
    from kubekit.manager import Manager

KEY = ("support", "support-llm")
SEEN = InferenceServiceStatus()


class World:
    """One reconcile over what stores hold, in front of an API server that takes nothing."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        running: bool,
        pods: tuple[Pod, ...] = (),
        status: InferenceServiceStatus | None = SEEN,
        resolved: Resolved | None = None,
        unread: Exception | None = None,
        hosts: tuple[str, ...] = (),
        bare: bool = False,
    ) -> None:
        self.hosts = hosts
        self.refused: Exception = Unreachable()
        self.resolved, self.unread = resolved or planned(), unread
        self.addresses: list[tuple[str, ...] | None] = []
        self.said: list[dict[str, Any]] = []
        self.changes: list[Any] = []
        plain = order("qwen")
        head = msgspec.structs.replace(plain.metadata, uid="order", resource_version="1")
        made = workload(noted={})
        owned = msgspec.structs.replace(
            made.metadata, uid="set", resource_version="1", owner_references=[OwnerReference(uid="order")]
        )
        self.held: dict[type, list[Any]] = {
            InferenceService: [msgspec.structs.replace(plain, metadata=head, status=status)],
            StatefulSet: [msgspec.structs.replace(made, metadata=owned)] if running and not bare else [],
            Pod: list(pods),
        }
        self.bare = msgspec.structs.replace(made, metadata=owned) if bare else None
        monkeypatch.setattr(wiring, "Probing", lambda *_: self)
        monkeypatch.setattr(wiring, "Story", lambda *_: self)
        monkeypatch.setattr(observe, "resolve", self.resolve)
        self.client = self
        wiring.setup(
            cast("Manager", self),
            ManualClock(),
            wiring.OrderSettings(
                Settings(gate_image="gate"), "%s.example.com", Https("Disabled"), runtime_fallback=True
            ),
            catalogue=cast("Any", None),
            planner=cast("Any", None),
            recipes=Recipes(shipped(), {}),
        )

    def informer(self, struct: Any, *, indexes: Any = None, **_: Any) -> SimpleNamespace:
        store: Store[Any] = Store(struct.KIND.name, indexes)
        store.replace(self.held.get(struct, []))
        return SimpleNamespace(store=store, feed=lambda *_: None, subscribe=self.changes.append)

    def add_task(self, *_: Any) -> None: ...

    def add_controller(self, controller: Controller[tuple[str, str]]) -> None:
        self.controller = controller

    async def resolve(self, *_: Any) -> Any:
        return self.resolved

    async def find(self, kind: Any, *_: Any) -> Any:
        self.controller.queue.close()  # this reconcile is the last
        if self.unread is not None:
            raise self.unread
        if kind is StatefulSet:
            return self.bare
        return Ingress(spec=Spec(rules=[Rule(host=one) for one in self.hosts])) if kind is Ingress else None

    async def create(self, *_: Any, **__: Any) -> None:
        raise self.refused

    async def request(self, *_: Any, **__: Any) -> bytes:
        raise NotFound(404, "NotFound", "nothing is there")

    async def patch(self, _kind: Any, _name: str, body: dict[str, Any], **_: Any) -> dict[str, Any]:
        if "status" not in body:
            raise Unreachable
        self.said.append(body["status"])
        return {}

    async def run(self) -> None:
        self.controller.queue.add(KEY)
        await self.controller.run()

    def health(self, *_: Any) -> None: ...

    def key(self, *_: Any) -> None: ...

    def follow(self, _key: tuple[str, str], target: Target, _known: Any) -> None:
        self.addresses.append(target.addresses)

    async def tell(self, *_: Any) -> None: ...

    def forget(self, _key: tuple[str, str]) -> None:
        self.addresses.append(None)


def pod(name: str, address: str, owner: OwnerReference | None) -> Pod:
    condition = {"type": "Ready", "status": "True"}
    metadata: dict[str, Any] = {"name": name, "namespace": "support", "uid": name, "resourceVersion": "1"}
    metadata |= {"labels": {names.ORDER_LABEL: "support-llm"}}
    status = {"podIP": address, "conditions": [condition]}
    raw = {"metadata": metadata | {"ownerReferences": [owner] if owner else []}, "status": status}
    return msgspec.convert(msgspec.to_builtins(raw), Pod)


async def test_the_pods_of_now_are_asked_though_nothing_can_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pods = (
        pod("own", "10.0.0.1", OwnerReference(uid="set", controller=True)),
        pod("unowned", "10.0.0.2", None),
        pod("owned-beside", "10.0.0.3", OwnerReference(uid="set")),
        pod("of-another", "10.0.0.4", OwnerReference(uid="earlier", controller=True)),
    )
    world = World(monkeypatch, running=True, pods=pods)
    await world.run()
    assert world.addresses == [("10.0.0.1",)]


async def test_a_workload_that_has_lost_its_labels_runs_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pods = (pod("own", "10.0.0.1", OwnerReference(uid="set", controller=True)),)
    made = InferenceServiceStatus(template_digest="sha256:earlier")
    world = World(monkeypatch, running=True, bare=True, pods=pods, status=made)
    await world.run()
    assert world.addresses == [("10.0.0.1",)]


async def test_without_a_workload_nobody_is_asked_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, running=False, pods=(pod("stale", "10.0.0.1", None),))
    await world.run()
    assert world.addresses == [None]


async def test_a_new_order_is_told_something_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, running=False, status=None)
    await world.run()  # which fails at whatever is written but the status
    (said,) = world.said
    known = {one["type"]: one["status"] for one in said["conditions"]}
    assert known == {"ClassResolved": "True", "ModelResolved": "True", "Ready": "False"}
    assert world.addresses == [None], "nobody is asked"


async def test_an_order_whose_secret_cannot_be_read_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Forbidden(403, "Forbidden", "no right to read secrets")
    resolved = planned(external())
    world = World(monkeypatch, running=False, resolved=resolved, unread=refused)
    await world.run()
    (said,) = world.said
    told = {one["type"]: (one["reason"], one["message"]) for one in said["conditions"]}
    assert told["ModelResolved"][0] == "ModelResolved"
    assert told["Ready"][0] == "ObjectRefused"
    assert "no right to read secrets" in told["Ready"][1]


async def test_an_order_that_was_told_something_gives_way_to_those_that_were_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, running=False)
    (changed,) = world.changes
    told, new = order("told"), order("new")
    after = msgspec.structs.replace(told, status=SEEN)
    changed(Change(("support", "told"), told.metadata, told, after), Priority.HIGH)
    changed(Change(("support", "new"), new.metadata, None, new), Priority.HIGH)
    queue = world.controller.queue
    assert [await queue.get(), await queue.get()] == [("support", "new"), ("support", "told")]


@pytest.mark.parametrize(
    ("hosts", "unread", "kept"),
    [
        (("chat.wrong.test",), None, True),
        ((), None, False),
        (("another.wrong.test",), None, False),
        ((), Forbidden(403, "Forbidden", "no right"), True),
    ],
)
async def test_a_host_of_another_domain_stays_while_an_ingress_has_it(
    monkeypatch: pytest.MonkeyPatch, hosts: tuple[str, ...], unread: Exception | None, *, kept: bool
) -> None:
    had = InferenceServiceStatus(endpoint=EndpointStatus(type="External", domain="chat.wrong.test"))
    world = World(
        monkeypatch, running=False, status=had, resolved=planned(external()), hosts=hosts, unread=unread
    )
    world.refused = Forbidden(403, "Forbidden", "no right to write secrets")
    await world.run()
    (said,) = world.said
    expected = "chat.wrong.test" if kept else "support-llm.example.com"
    assert said["endpoint"]["domain"] == expected
