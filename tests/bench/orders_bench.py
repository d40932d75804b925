"""Many orders at once: how soon each is told something, what they cost the API server, and the controller.

``python tests/bench/orders_bench.py [--orders 50] [--rounds 3]`` needs no root: a control plane of its own
with nodes that are played, and the real controller, planner and lookup beside it. The Pods are Running at
once and answer nobody, so an order's way ends with HealthCheckFailed; an answer is the runtime's matter.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import trustme

from aiinference.api.orders import InferenceService
from kubekit.client import connect
from kubekit.conditions import find
from kubekit.informer import Informer
from kubekit.resources import Secret
from tests.kit import lookupworld, plannerprocess
from tests.kit.controlplane import fresh_namespace, own_control_plane
from tests.kit.dmcr import free_port
from tests.kit.eventually import eventually
from tests.kit.inferenceapi import CHART
from tests.kit.inferencecontroller import entitled
from tests.kit.lookupworld import Certificate
from tests.kit.modelsapi import install_definitions
from tests.kit.ordersworld import World, started

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from kubekit.client import Client
    from kubekit.queue import Priority
    from kubekit.store import Change
    from tests.kit.inferencecontroller import Controller

FIRST_TARGET, MEMORY_TARGET = 1.0, 100.0
FAKE_NODES = 4
PATIENCE = 300.0
#: long after the last news of an order, to see what is written when nothing happens
QUIET = 10.0
TOLERATIONS = '[{"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}]'
MILESTONES: dict[str, Callable[[InferenceService], bool]] = {
    "first condition": lambda order: bool(order.status and order.status.conditions),
    "workload made": lambda order: _reason(order, "RuntimeCurrent") is not None,
    "Pods running": lambda order: _reason(order, "WorkloadReady") == "WorkloadReady",
    "asked, no answer": lambda order: _reason(order, "Ready") == "HealthCheckFailed",
}
_SERVED = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WRITES = frozenset({"APPLY", "POST", "PUT", "PATCH", "DELETE"})
#: who does what for the controllers' own sake, or for the bench's
_ELSEWHERE = frozenset({"leases", "events", "tokenreviews", "subjectaccessreviews", "selfsubjectreviews"})


def _reason(order: InferenceService, type_: str) -> str | None:
    found = find(order.status.conditions, type_) if order.status else None
    return found.reason if found else None


@dataclass
class Round:
    """When each order was made, and when it was first seen to have come so far."""

    made: dict[str, float] = field(default_factory=dict)
    reached: dict[str, dict[str, float]] = field(default_factory=lambda: {name: {} for name in MILESTONES})

    def hear(self, change: Change[InferenceService], _priority: Priority) -> None:
        """Take one state of an order."""
        order, now = change.after, time.perf_counter()
        if order is None:
            return
        for name, is_reached in MILESTONES.items():
            if is_reached(order):
                self.reached[name].setdefault(order.metadata.name, now)

    def seconds(self, milestone: str) -> list[float]:
        """Return how long each order took, shortest first."""
        return sorted(at - self.made[name] for name, at in self.reached[milestone].items())

    async def over(self) -> bool:
        """Tell whether all orders have come to their end."""
        return all(len(reached) == len(self.made) for reached in self.reached.values())


@dataclass
class System:
    """What is measured, and where."""

    client: Client
    controller: Controller
    kubeconfig: Path

    async def counted(self) -> Counter[tuple[str, str]]:
        """Return how many requests of each kind the API server has answered."""
        counts: Counter[tuple[str, str]] = Counter()
        text = (await self.client.request("GET", "/metrics")).decode()
        for labels, value in _SERVED.findall(text):
            said = dict(_LABEL.findall(labels))
            what = "/".join(filter(None, (said["resource"], said["subresource"])))
            counts[said["verb"], what] += int(float(value))
        return counts

    async def sent(self) -> Counter[str]:
        """Return the controller's own count of its requests by method."""
        counts: Counter[str] = Counter()
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://localhost:{self.controller.port}/metrics") as answer,
        ):
            for line in (await answer.text()).splitlines():
                if line.startswith("d8_ai_inference_kube_requests_total"):
                    labels, _, value = line.rpartition(" ")
                    counts[dict(_LABEL.findall(labels))["method"]] += int(float(value))
        return counts

    def memory(self, row: str) -> float:
        """Return a row of the controller's memory in MB."""
        assert self.controller.process is not None
        status = Path(f"/proc/{self.controller.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith(row))
        return int(line.split()[1]) * 1024 / 1e6


@dataclass
class Cost:
    """What one round has cost."""

    round: Round
    served: Counter[tuple[str, str]]
    sent: Counter[str]
    quiet: int


def main() -> int:
    """Print the tables; return 1 when a figure is over its target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with own_control_plane(FAKE_NODES) as kubeconfig, tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_main(kubeconfig, Path(folder), given.orders, given.rounds))


async def _main(kubeconfig: Path, folder: Path, orders: int, rounds: int) -> int:
    async with _running(kubeconfig, folder) as system:
        idle = system.memory("VmRSS")
        costs = [await _round(system, orders) for _ in range(rounds)]
        memory, most = system.memory("VmRSS"), system.memory("VmHWM")
    _print_times(costs, orders)
    _print_requests(costs, orders)
    told = f"{idle:.0f} MB before, {memory:.0f} MB after, {most:.0f} MB at its most"
    print(f"\ncontroller: {told}; target {MEMORY_TARGET:g} MB")
    late = statistics.median(_at(cost.round.seconds("first condition"), 99) for cost in costs)
    return int(late > FIRST_TARGET or most > MEMORY_TARGET)


@asynccontextmanager
async def _running(kubeconfig: Path, folder: Path) -> AsyncIterator[System]:
    """Give the three processes at work, with the rights of their charts and each other's certificates."""
    parts = {name: folder / name for name in ("lookup", "planner", "controller")}
    for part in parts.values():
        part.mkdir()
    port, token = free_port(), folder / "catalog-token"
    with fresh_namespace(kubeconfig) as namespace:
        async with (
            connect(kubeconfig) as client,
            lookupworld.running(kubeconfig, parts["lookup"], "d8-ai-models") as models,
            entitled(kubeconfig, namespace, parts["controller"]) as mine,
        ):
            await install_definitions(client, CHART)
            token.write_text(models.token("inference"))
            environ = {
                "AI_INFERENCE_CATALOG_BASE_URL": models.api.url,
                "AI_INFERENCE_CATALOG_TOKEN_FILE": str(token),
                "AI_INFERENCE_PLANNER_URL": f"https://localhost:{port}",
                "AI_INFERENCE_PLANNER_TOKEN_FILE": str(parts["planner"] / "token"),
                "AI_INFERENCE_TOLERATIONS": TOLERATIONS,
            }
            async with started(mine, namespace, parts["controller"], **environ) as controller:
                shown = await _planners_certificate(client, namespace, parts["planner"])
                async with plannerprocess.running(
                    kubeconfig, parts["planner"], port=port, certificate=shown
                ) as planner:
                    planner.show(plannerprocess.CONTROLLER)
                    yield System(client, controller, kubeconfig)


async def _planners_certificate(client: Client, namespace: str, folder: Path) -> Certificate:
    """Return one of the authority that the controller has made, for where the planner is here."""

    async def look() -> Secret | None:
        return await client.find(Secret, "ai-inference-ca", namespace)

    made = await eventually(look)
    assert made is not None
    authority = trustme.CA.from_pem(made.data["tls.crt"], made.data["tls.key"])
    return Certificate.made(folder, "planner", authority=authority)


async def _round(system: System, orders: int) -> Cost:
    with fresh_namespace(system.kubeconfig) as namespace:
        world = World(system.client, system.controller, namespace, f"class-{namespace}")
        await world.model("qwen")
        exposure = {"type": "External", "authentication": "Token"}
        await world.make_class(world.klass, exposurePolicy=exposure, acceleratorPolicy={"fallback": "CPU"})
        await world.order("first", "qwen")
        await world.says(
            "first", "WorkloadReady", "WorkloadReady"
        )  # the class is known, connections are open
        await asyncio.sleep(1)
        this = Round()
        informer = Informer(system.client, InferenceService, namespace=namespace)
        informer.subscribe(this.hear)
        following = asyncio.create_task(informer.run())
        await informer.synced.wait()
        for reached in this.reached.values():
            reached.clear()
        served, sent = await system.counted(), await system.sent()
        await asyncio.gather(*(_ordered(world, this, f"order-{number}") for number in range(orders)))
        try:
            await eventually(this.over, within=PATIENCE)
        except AssertionError:
            told = {name: len(reached) for name, reached in this.reached.items()}
            raise AssertionError(f"not all orders came to their end: {told}") from None
        after, sent_after = await system.counted(), await system.sent()
        await asyncio.sleep(QUIET)
        quiet = (await system.sent())["PATCH"] - sent_after["PATCH"]
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await world.client.request(
            "DELETE", f"/apis/ai.deckhouse.io/v1alpha1/namespaces/{namespace}/inferenceservices"
        )
        return Cost(this, after - served, sent_after - sent, quiet)


async def _ordered(world: World, this: Round, name: str) -> None:
    this.made[name] = time.perf_counter()
    await world.order(name, "qwen")


def _at(seconds: list[float], percent: int) -> float:
    """Return the percentile: of 50 values, the 99th is the largest."""
    return seconds[max(0, -(-len(seconds) * percent // 100) - 1)]


def _print_times(costs: list[Cost], orders: int) -> None:
    print(
        f"\n{orders} orders at once, {len(costs)} rounds; seconds since each was made, median of the rounds"
    )
    print(f"{'':24}{'p50':>8}{'p99':>8}   rounds (p99)")
    for name in MILESTONES:
        rounds = [cost.round.seconds(name) for cost in costs]
        middle, late = (statistics.median(_at(one, percent) for one in rounds) for percent in (50, 99))
        each = " ".join(f"{_at(one, 99):.2f}" for one in rounds)
        target = f"   at most {FIRST_TARGET:g}" if name == "first condition" else ""
        print(f"{name:24}{middle:8.2f}{late:8.2f}   {each}{target}")


def _print_requests(costs: list[Cost], orders: int) -> None:
    """Print what an order costs the API server: what the controller writes, and all that it asks."""
    total: Counter[tuple[str, str]] = sum((cost.served for cost in costs), Counter())
    made = orders * len(costs)
    print("\nwrites per order, counted by the API server")
    ours = [one for one in total if one[0] == "APPLY" or one == ("POST", "secrets")]
    for verb, what in sorted(ours, key=lambda one: (-total[one], one)):
        print(f"  {verb:8}{what:40}{total[verb, what] / made:6.2f}")
    print(f"  {'in all':48}{sum(total[one] for one in ours) / made:6.2f}")
    for title, verbs in (("by Kubernetes itself, and leases", _WRITES),):
        others = _sum(total, (one for one in total if one[0] in verbs and one not in ours))
        print(f"  {title:48}{others / made:6.2f}")
    sent: Counter[str] = sum((cost.sent for cost in costs), Counter())
    told = ", ".join(f"{method} {count / made:.2f}" for method, count in sorted(sent.items()))
    print(f"requests per order, counted by the controller: {told}")
    print(f"its patches in {QUIET:g} s after that, its lease included: {max(cost.quiet for cost in costs)}")


def _sum(counts: Counter[tuple[str, str]], which: Iterable[tuple[str, str]]) -> int:
    return sum(counts[one] for one in which if one[1] not in _ELSEWHERE)


if __name__ == "__main__":
    sys.exit(main())
