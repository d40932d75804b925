"""What is written when an order's key is replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import msgspec

from aiinference.api.orders import ROTATE_TOKEN_ANNOTATION
from aiinference.orders.act import Actor
from aiinference.orders.decide import intent
from aiinference.workload import names
from aiinference.workload.intent import Settings
from kubekit.errors import Forbidden
from kubekit.resources import Secret
from kubekit.resources.meta import ObjectMeta, OwnerReference
from opskit.clock import ManualClock
from tests.kit.orderstates import external, observed, planned

if TYPE_CHECKING:
    from kubekit.client import Client


class Server:
    """Takes the key and nothing else."""

    def __init__(self) -> None:
        self.body: dict[str, Any] = {}

    async def patch(self, kind: Any, _name: str, body: dict[str, Any], **__: Any) -> dict[str, Any]:
        if kind is not Secret:
            raise Forbidden(403, "Forbidden", "no")
        self.body = body
        return body

    async def find(self, *_: Any) -> None:
        """Have no certificate."""

    async def request(self, *_: Any) -> bytes:
        return b"{}"


async def test_what_somebody_has_taken_off_the_key_is_put_back() -> None:
    """The policy about the controller has it write objects with its own labels and owner only."""
    o = observed(planned(external()), host="a.example.com")
    head = ObjectMeta(
        name="support-llm", namespace="support", uid="u1", annotations={ROTATE_TOKEN_ANNOTATION: "now"}
    )
    owner = OwnerReference(api_version="v1", kind="k", name="support-llm", uid="u1", controller=False)
    bare = ObjectMeta(
        name="support-llm-auth", namespace="support", resource_version="7", owner_references=[owner]
    )
    o = replace(
        o,
        order=msgspec.structs.replace(o.order, metadata=head),
        secret=Secret(metadata=bare, data={"token": b"old"}),
    )
    wanted, server = intent(o), Server()
    assert wanted is not None
    await Actor(cast("Client", server), Settings(gate_image="gate", namespace="m"), ManualClock()).act(
        wanted, o
    )
    assert server.body["data"]["previousToken"]
    assert server.body["metadata"]["resourceVersion"] == "7"
    assert server.body["metadata"]["labels"] == names.labels("support-llm")
    owners = server.body["metadata"]["ownerReferences"]
    assert [(one["uid"], one["controller"]) for one in owners] == [("u1", True)]
