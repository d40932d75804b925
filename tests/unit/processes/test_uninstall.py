from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from aimodels.processes.uninstall import MarkedModel, _release
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
