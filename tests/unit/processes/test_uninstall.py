from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from aimodels.processes.uninstall import Left, MarkedModel, _release, report
from kubekit.errors import Invalid
from kubekit.resources import ObjectMeta

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
