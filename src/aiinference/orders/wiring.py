"""Orders in a process: informers to keys, keys to objects and statuses.

What belongs here: who tells whom, and the sequence of one reconcile. What does not: what is decided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from aiinference.api.classes import InferenceServiceClass
from aiinference.api.fields import API_VERSION
from aiinference.api.orders import InferenceService
from aiinference.orders import decide, ingresses, missing, observe, report, targets
from aiinference.orders.act import Actor
from aiinference.orders.asking import Desk
from aiinference.orders.hosts import Hosts
from aiinference.orders.probing import Probing
from aiinference.orders.state import Halt, Observation
from aiinference.orders.story import Story
from aiinference.workload import names
from kubekit.apply import Applier
from kubekit.controller import Again, Controller, Done
from kubekit.errors import ApiError, Transient
from kubekit.events import Recorder
from kubekit.manager import Stage
from kubekit.queue import KeyedQueue, Priority
from kubekit.resources import Pod, Secret, StatefulSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiinference.classes.policy import Https
    from aiinference.models.catalogue import Catalogue
    from aiinference.planner.client import PlannerClient
    from aiinference.planner.plan import Recipes
    from aiinference.workload.intent import Settings
    from kubekit.manager import Manager
    from kubekit.store import Change
    from opskit.clock import Clock

FIELD_MANAGER = "ai-inference-orders-status"
#: in whose name events are written
COMPONENT = "ai-inference-controller"
#: what is asked of others is asked again after so long, though nothing here has changed
_LOOK_AGAIN = 300.0
_MANAGED = {"labelSelector": f"{names.MANAGED_LABEL}=true"}

Key = tuple[str, str]


@dataclass(frozen=True)
class OrderSettings:
    """What the orders' controller is told."""

    workload: Settings
    domain_template: str
    module_https: Https
    runtime_fallback: bool
    not_ready_requeue_seconds: float = 30.0


class Orders:
    """Keeps objects and status of every order true."""

    def __init__(
        self,
        manager: Manager,
        clock: Clock,
        settings: OrderSettings,
        *,
        catalogue: Catalogue,
        planner: PlannerClient,
        recipes: Recipes,
    ) -> None:
        self._client = manager.client
        self._clock = clock
        self._settings = settings
        self._applier = Applier(manager.client, FIELD_MANAGER)
        self._queue: KeyedQueue[Key] = KeyedQueue("orders")
        self._actor = Actor(manager.client, settings.workload, clock)
        self._hosts = Hosts(settings.domain_template)
        self._probing = Probing(clock, self._queue.add)
        self._story = Story(Recorder(manager.client, COMPONENT), clock)
        orders = manager.informer(InferenceService)
        workloads = manager.informer(StatefulSet, selectors=_MANAGED)
        pods = manager.informer(Pod, selectors=_MANAGED, indexes={"order": _order_of})
        classes = manager.informer(InferenceServiceClass)
        self._orders, self._workloads, self._pods = orders.store, workloads.store, pods.store
        orders.subscribe(self._ordered)
        workloads.feed(self._queue, lambda change: [change.key])
        pods.feed(self._queue, _orders_of)
        classes.feed(self._queue, self._of_class)
        self._sources = observe.Sources(
            classes.store,
            catalogue,
            planner,
            recipes,
            settings.module_https,
            settings.runtime_fallback,
            has_domain=bool(settings.domain_template),
            models=Desk(self._queue.add),
            plans=Desk(self._queue.add),
        )
        manager.add_task("asking the catalogue", self._sources.models.run, Stage.LEADING)
        manager.add_task("asking the planner", self._sources.plans.run, Stage.LEADING)
        manager.add_task("probing", self._probing.run, Stage.LEADING)
        manager.add_controller(Controller("orders", self._queue, self._reconcile))

    def _ordered(self, change: Change[InferenceService], priority: Priority) -> None:
        """Have an order looked at; one that was just told something gives way to those told nothing yet."""
        before, after = change.before, change.after
        told = before is not None and before.status is None and after is not None and after.status is not None
        self._queue.add(change.key, Priority.LOW if told else priority)

    def _of_class(self, change: Change[InferenceServiceClass]) -> Iterable[Key]:
        name = change.key[1]
        return [
            order.metadata.key
            for order in self._orders.list()
            if order.spec.inference_service_class_name == name
        ]

    async def _reconcile(self, key: Key) -> Done | Again:
        order = self._orders.get(*key)
        if order is None or order.metadata.deleting:
            self._probing.forget(key)
            self._actor.forget(key)
            self._story.forget(key)
            self._sources.models.forget(key)
            self._sources.plans.forget(key)
            return Done()
        o = await self._observe(order)
        self._probe(o)  # whatever becomes of the objects, the key goes to nobody but the Pods of now
        if order.status is None and o.workload is None:
            # Told before anything is made, for which many orders at once may wait a while; and should this
            # process end in between, the next one knows what was meant. The status brings the key back.
            await self._report(o)
            return Again(self._pause(o, None))
        # What runs is kept up whatever becomes of a new plan.
        wanted = decide.intent(o) or decide.upkeep(o)
        acted = None if wanted is None else await self._actor.act(wanted, o)
        if isinstance(acted, Halt):
            o = _refused(o, acted)
        o = replace(o, record=self._actor.record(order.metadata))
        await self._report(o)
        if isinstance(acted, Halt) and acted.soon:
            raise Transient(acted.reason, acted.message)
        return Again(self._pause(o, acted if isinstance(acted, float) else None))

    async def _observe(self, order: InferenceService) -> Observation:
        resolved = await observe.resolve(order, self._sources)
        key = order.metadata.key
        host = instead = None
        if resolved.policy is not None:
            # Before the orders are looked through: meanwhile another one may be given a host.
            had = self._hosts.foreign(order)
            unusable = had is not None and not await ingresses.has(self._client, order.metadata, had)
            others = self._orders.list()
            host = self._hosts.host(order, resolved.policy, others, unusable=unusable)
            instead = self._hosts.instead(order, host, others)
        workload, secret = await self._own_workload(order), await self._secret(order)
        return Observation(
            order=order,
            resolved=resolved,
            host=host,
            instead=instead,
            workload=workload,
            pods=tuple(
                pod for pod in self._pods.by("order", "/".join(key)) if targets.is_made_by(workload, pod)
            ),
            secret=secret if isinstance(secret, Secret) else None,
            unread=secret if isinstance(secret, ApiError) else None,
            health=self._probing.health(key, order.metadata.uid) or targets.earlier(order, workload),
            refused=await missing.why(self._client, workload),
            records=self._records(order),
        )

    def _records(self, order: InferenceService) -> frozenset[str]:
        """Return what is known of the workload's record: the status may lag behind what was just written."""
        said = order.status.template_digest if order.status else None
        return frozenset(one for one in (said, self._actor.record(order.metadata)) if one)

    async def _own_workload(self, order: InferenceService) -> StatefulSet | None:
        """Return the order's StatefulSet; one that has lost its labels is in no store and runs on."""
        head = order.metadata
        found = self._workloads.get(*head.key)
        if found is None and self._records(order):
            found = await self._client.find(StatefulSet, head.name, head.namespace)
        return found if found is not None and found.metadata.belongs_to(head) else None

    async def _secret(self, order: InferenceService) -> Secret | ApiError | None:
        name = names.auth_secret(order.metadata.name)
        try:
            return await self._client.find(Secret, name, order.metadata.namespace)
        except ApiError as error:
            return error

    def _probe(self, o: Observation) -> None:
        """Have what runs asked, by what it was made from and not by what is wanted now."""
        key = o.order.metadata.key
        if o.workload is None:
            self._probing.forget(key)
            return
        uid = o.order.metadata.uid
        known = self._probing.key(key, uid)
        if o.unread and decide.some_ask(o) and known is None:
            return  # without its key, an order that is well would look ill
        self._probing.follow(key, targets.target(o, o.workload, known), o.health)

    async def _report(self, o: Observation) -> None:
        status = report.status(o, self._clock.now())
        said = msgspec.to_builtins(status)
        if o.order.status is not None and msgspec.to_builtins(o.order.status) == said:
            return
        head = {
            "name": o.order.metadata.name,
            "namespace": o.order.metadata.namespace,
            "uid": o.order.metadata.uid,
            # What was read may be older than what was last said here.
            "resourceVersion": o.order.metadata.resource_version,
        }
        kind = InferenceService.KIND.name
        manifest = {"apiVersion": API_VERSION, "kind": kind, "metadata": head, "status": said}
        await self._applier.status(manifest)
        await self._story.tell(o.order, status)

    def _pause(self, o: Observation, again: float | None) -> float:
        waits = [_LOOK_AGAIN] if again is None else [_LOOK_AGAIN, again]
        if any(halt and halt.passing for halt in (o.resolved.halt, o.acted)):
            waits.append(self._settings.not_ready_requeue_seconds)
        lacking = missing.pause(o.workload, o.refused) if o.workload else None
        return min(waits if lacking is None else [*waits, lacking])


def _refused(o: Observation, halt: Halt) -> Observation:
    """Note what was met by writing; what stood in the way before comes first."""
    if o.resolved.halt is not None:
        return replace(o, acted=halt)
    return replace(o, resolved=replace(o.resolved, halt=halt))


def _order_of(pod: Pod) -> Iterable[str]:
    name = pod.metadata.labels.get(names.ORDER_LABEL)
    return [f"{pod.metadata.namespace}/{name}"] if name else []


def _orders_of(change: Change[Pod]) -> Iterable[Key]:
    name = change.metadata.labels.get(names.ORDER_LABEL)
    return [(change.metadata.namespace, name)] if name else []


def setup(
    manager: Manager,
    clock: Clock,
    settings: OrderSettings,
    *,
    catalogue: Catalogue,
    planner: PlannerClient,
    recipes: Recipes,
) -> None:
    """Have the manager look after orders."""
    Orders(manager, clock, settings, catalogue=catalogue, planner=planner, recipes=recipes)
