"""An order that answers, and what it needed is taken away: its key, the planner, the catalogue, the model."""

from __future__ import annotations

import base64
import threading
import urllib.request
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit import journey, served
from tests.kit.controlplane import fresh_namespace
from tests.kit.journey import until
from tests.kit.served import MODEL, ORDER, Client
from tools.installation import INFERENCE_NAMESPACE, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.cluster import Platform

pytestmark = [pytest.mark.root, pytest.mark.disruptive, pytest.mark.timeout(600)]

CONTROLLER = "aiinference.processes.controller"
LOOKUPS = "d8_ai_inference_inference_model_lookups_total"
#: a kubelet looks at the Secrets of a Pod about once a minute
KUBELET_SECONDS = 150


@dataclass
class Served:
    """The order, in its namespace."""

    platform: Platform
    namespace: str

    def get(self, kind: str, name: str = ORDER) -> dict[str, Any]:
        found: dict[str, Any] = self.platform.target.get("-n", self.namespace, kind, name)
        return found

    def annotate(self, kind: str, name: str, key: str, value: str) -> None:
        words = ("annotate", f"{kind}/{name}", f"{key}={value}", "--overwrite")
        self.platform.target.kubectl("-n", self.namespace, *words)

    def look_again(self, number: int) -> None:
        """Have the controller look at the order."""
        self.annotate("inferenceservice", ORDER, "tests/looked-at", str(number))

    def condition(self, kind: str, name: str, type_: str) -> tuple[str, str]:
        conditions = self.get(kind, name).get("status", {}).get("conditions", [])
        found: dict[str, str] = next((one for one in conditions if one["type"] == type_), {})
        return found.get("status", ""), found.get("reason", "")

    def replica(self) -> list[tuple[str, str, int]]:
        """Return what would differ had anything of the replica been started again."""
        status = self.get("pod", f"{ORDER}-0")["status"]
        every = [*status["initContainerStatuses"], *status["containerStatuses"]]
        return [(one["name"], one["containerID"], one["restartCount"]) for one in every]

    def ready(self) -> bool:
        status = self.get("inferenceservice")["status"]
        return status["phase"] == "Ready" and self.condition("inferenceservice", ORDER, "Ready")[0] == "True"


@pytest.fixture(scope="module")
def served_order(inference: Platform) -> Iterator[Served]:
    inference.ensure()
    with fresh_namespace(inference.target.kubeconfig) as namespace, served.ordered(inference, namespace):
        yield Served(inference, namespace)


@dataclass
class Load:
    """Somebody who asks all the time with one key."""

    client: Client
    key: str
    answers: list[int | str] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[None]:
        over = threading.Event()

        def ask() -> None:
            while not over.is_set():
                try:
                    self.answers.append(self.client.answers(self.key))
                except OSError as error:
                    self.answers.append(repr(error))

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def goes_on(self) -> None:
        """Wait for some more answers."""
        had = len(self.answers)
        until(lambda: len(self.answers) >= had + 3, 60, "more answers")


def test_the_key_is_replaced_under_load_and_nobody_is_turned_away(served_order: Served) -> None:
    client = Client(served_order.platform, served_order.namespace)
    replica = served_order.replica()
    before = Load(client, client.key)
    with before.running():
        before.goes_on()
        served_order.annotate("inferenceservice", ORDER, "ai.deckhouse.io/rotate-token", "1")
        new = until(lambda: _other_key(served_order, client.key), 30, "a new key")
        until(lambda: _is_taken(served_order, client, new), KUBELET_SECONDS, "the new key is taken")
        after = Load(client, new)
        with after.running():
            after.goes_on()
            before.goes_on()
        assert client.answers("wrong-key-wrong-key-wrong") == 401
    assert set(before.answers) == {200}
    assert set(after.answers) == {200}
    assert served_order.replica() == replica
    assert served_order.ready()


def _other_key(order: Served, old: str) -> str | None:
    data = order.get("secret", f"{ORDER}-auth")["data"]
    new = base64.b64decode(data["token"]).decode()
    if new == old:
        return None
    assert base64.b64decode(data["previousToken"]).decode() == old
    return new


def _is_taken(order: Served, client: Client, key: str) -> bool:
    # A kubelet looks at a Pod that changes at once, and with it at its Secrets.
    order.annotate("pod", f"{ORDER}-0", "tests/looked-at", str(threading.get_native_id()))
    return client.answers(key) == 200


def test_it_answers_without_planner_catalogue_and_controller(served_order: Served) -> None:
    order, client = served_order, Client(served_order.platform, served_order.namespace)
    replica, generation = order.replica(), order.get("statefulset")["metadata"]["generation"]
    kept = ("Planned", "LaunchPlanCalculated"), ("ModelResolved", "ModelResolved"), ("Ready", "Ready")
    away = ((INFERENCE_NAMESPACE, "ai-inference-planner"), (NAMESPACE, "ai-models-api"))
    with _scaled_to_nothing(order.platform, *away):
        order.look_again(1)
        until(lambda: _missed_lookups(order.platform), 60, "the lookup is missed")
        served.order(order.platform, order.namespace, "later")
        until(
            lambda: order.condition("inferenceservice", "later", "Ready")[1] == "PlannerUnavailable",
            60,
            "a new order says what it waits for",
        )
        for type_, reason in kept:
            assert order.condition("inferenceservice", ORDER, type_) == ("True", reason)
        assert client.answers(client.key) == 200
        assert client.answers("wrong-key-wrong-key-wrong") == 401
    # Killed while it makes the new order's objects, the first of which is the key.
    until(
        lambda: not journey.gone(order.platform, "-n", order.namespace, "secret", "later-auth"), 90, "a key"
    )
    journey.kill("-m", CONTROLLER)
    key = order.get("secret", "later-auth")
    until(lambda: order.condition("inferenceservice", "later", "RuntimeCurrent")[1], 90, "later goes on")
    assert order.get("statefulset", "later")["metadata"]["generation"] == 1
    assert order.get("secret", "later-auth")["data"] == key["data"]
    assert client.answers(client.key) == 200
    assert order.replica() == replica
    assert order.get("statefulset")["metadata"]["generation"] == generation
    assert order.ready()


@contextmanager
def _scaled_to_nothing(platform: Platform, *deployments: tuple[str, str]) -> Iterator[None]:
    """Have Deployments without replicas for a while."""
    kubectl = platform.target.kubectl
    had = {
        one: platform.target.get("-n", one[0], "deployment", one[1])["spec"]["replicas"]
        for one in deployments
    }
    try:
        for namespace, name in deployments:
            kubectl("-n", namespace, "scale", f"deployment/{name}", "--replicas=0")
        for namespace, name in deployments:
            kubectl("-n", namespace, "wait", "--for=delete", "pod", "-l", f"app={name}", "--timeout=60s")
        yield
    finally:
        for (namespace, name), replicas in had.items():
            kubectl("-n", namespace, "scale", f"deployment/{name}", f"--replicas={replicas}")
        for namespace, name in deployments:
            kubectl("-n", namespace, "rollout", "status", f"deployment/{name}", "--timeout=90s")


def _missed_lookups(platform: Platform) -> bool:
    """Tell whether the controller has asked the lookup in vain, by its own metrics."""
    pods = platform.target.get("-n", INFERENCE_NAMESPACE, "pods", "-l", "app=ai-inference-controller")[
        "items"
    ]
    for pod in pods:
        with suppress(OSError):
            url = f"http://{pod['status']['podIP']}:8081/metrics"
            text = urllib.request.urlopen(url, timeout=5).read().decode()
            found = [line for line in text.splitlines() if line.startswith(LOOKUPS)]
            if any('transport="Rest"' in line and 'result="unavailable"' in line for line in found):
                return True
    return False


def test_a_model_that_is_deleted_stays_for_the_order_that_it_serves(served_order: Served) -> None:
    order, client = served_order, Client(served_order.platform, served_order.namespace)
    kubectl = order.platform.target.kubectl
    kubectl("-n", order.namespace, "delete", "model", MODEL, "--wait=false")
    until(lambda: order.condition("model", MODEL, "Ready")[1] == "InUse", 60, "the model is in use")
    order.look_again(2)
    until(
        lambda: order.condition("inferenceservice", ORDER, "ModelResolved") == ("False", "ModelNotReady"),
        60,
        "the order says that its model is going",
    )
    assert order.ready()
    assert client.answers(client.key) == 200
    # The other order may have had no room beside this one; a replica that starts now finds the model too.
    kubectl("-n", order.namespace, "delete", "inferenceservice", ORDER)
    served.wait(order.platform, order.namespace, name="later")
    later = Client(order.platform, order.namespace, "later")
    assert later.answers(later.key) == 200
    assert later.answers(client.key) == 401
    assert order.condition("model", MODEL, "Ready")[1] == "InUse"
    kubectl("-n", order.namespace, "delete", "inferenceservice", "later")
    until(lambda: journey.gone(order.platform, "-n", order.namespace, "model", MODEL), 90, "the model goes")
