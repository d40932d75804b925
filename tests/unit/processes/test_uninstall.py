from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import looptime  # noqa: F401 - virtual time between two looks
import pytest

from aimodels.delivery import handover
from aimodels.processes.uninstall import (
    Left,
    MarkedModel,
    _release,
    conclude_hand_overs,
    report,
    stop_controllers,
)
from kubekit.errors import ApiError, Conflict, Invalid, NotFound
from kubekit.resources import ObjectMeta, Pod, PodStatus

if TYPE_CHECKING:
    from kubekit.client import Client

OURS, THEIRS = "ai.deckhouse.io/model-cleanup", "example.com/theirs"


def marked(*finalizers: str) -> MarkedModel:
    return MarkedModel(metadata=ObjectMeta(name="m", namespace="team", uid="1", finalizers=list(finalizers)))


class Server:
    """Keeps one object whose finalizers somebody else changes right after it was listed."""

    def __init__(self) -> None:
        self.finalizers = [OURS, THEIRS]

    async def list(self, *_: object) -> list[MarkedModel]:
        return [marked(OURS)]

    async def find(self, *_: object) -> MarkedModel:
        return marked(*self.finalizers)

    async def patch(self, _kind: object, _name: str, operations: Any, **_: object) -> None:
        if operations[1]["value"] != self.finalizers:
            raise Invalid(422, "Invalid", "the server rejected our request: test failed")
        self.finalizers = operations[2]["value"]


async def test_finalizers_that_change_meanwhile_do_not_stop_an_uninstallation() -> None:
    server = Server()
    assert await _release(cast("Client", server), MarkedModel) == 1
    assert server.finalizers == [THEIRS]


class Pods:
    """Lists these Pods, one list after the other; the last one stays."""

    def __init__(self, *phases: list[str]) -> None:
        self.phases = list(phases)
        self.scaled: object = None

    async def patch(self, _kind: object, _name: str, body: object, **_: object) -> None:
        self.scaled = body

    async def list(self, *_: object, **__: object) -> list[Pod]:
        phases = self.phases.pop(0) if len(self.phases) > 1 else self.phases[0]
        return [Pod(metadata=ObjectMeta(name="c"), status=PodStatus(phase=phase)) for phase in phases]


@pytest.mark.looptime
async def test_a_controller_that_was_evicted_does_not_hold_an_uninstallation_up() -> None:
    pods = Pods(["Running", "Failed"], ["Pending", "Failed"], ["Failed", "Succeeded"])
    await stop_controllers(cast("Client", pods), "d8-ai-models")
    assert pods.scaled == {"spec": {"replicas": 0}}
    assert pods.phases == [["Failed", "Succeeded"]], "those that run were waited for"


@pytest.mark.looptime
async def test_a_controller_that_stays_fails_the_uninstallation() -> None:
    with pytest.raises(TimeoutError):
        await stop_controllers(cast("Client", Pods(["Running"])), "d8-ai-models")


@pytest.mark.looptime
@pytest.mark.parametrize("error", [Conflict(409, "Conflict", "changed"), NotFound(404, "NotFound", "gone")])
async def test_volumes_that_change_or_go_meanwhile_are_looked_at_again(
    error: ApiError, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []

    async def conclude(_client: object, namespace: str) -> list[str]:
        looks.append(namespace)
        if len(looks) == 1:
            raise error
        return ["pv-1"]

    monkeypatch.setattr(handover, "conclude", conclude)
    assert await conclude_hand_overs(cast("Client", None), "d8-ai-models") == ["pv-1"]
    assert looks == ["d8-ai-models"] * 2


def test_everything_that_stays_is_named_with_what_removes_it() -> None:
    left = Left(
        namespace="d8-ai-models",
        models=2,
        cluster_models=1,
        store=True,
        delivered=[("team", "ai-model-llm-1")],
        copies=["ai-model-fill-1"],
        volumes=["pv-1"],
    )
    text = report(left)
    for said in (
        "2 Models and 1 ClusterModels",
        "on the claim dmcr-data in d8-ai-models",
        "on the claim ai-model-llm-1 in team",
        "1 copies that were not finished, on claims in d8-ai-models",
        "a copy that no claim has, on the volume pv-1",
        "kubectl delete namespace d8-ai-models",
        "kubectl -n team delete pvc ai-model-llm-1",
        "kubectl delete pv pv-1",
    ):
        assert said in text
    assert "copies that were not finished" not in report(
        Left(namespace="n", models=0, cluster_models=0, store=False, delivered=[])
    )
