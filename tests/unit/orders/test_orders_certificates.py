"""The administrator's certificate beside an order: when it is written, told, left and deleted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import msgspec

from aiinference.api.reasons import OrderCondition, OrderReason
from aiinference.classes.policy import Exposure, Https
from aiinference.orders.certificates import Certificates
from aiinference.orders.state import Halt
from kubekit import certs
from kubekit.apply import Applier
from kubekit.resources import Secret
from opskit.clock import ManualClock
from tests.kit import orders

HOME = "d8-ai-inference"
COPY = (orders.NAMESPACE, "support-llm-tls")
SOURCE = (HOME, "wildcard")


class World:
    """Secrets by namespace and name, what was asked and what was written."""

    def __init__(self) -> None:
        self.secrets: dict[tuple[str, str], Secret] = {}
        self.asked: list[tuple[str, str]] = []
        self.written: list[str] = []
        self.clock = ManualClock()
        client = cast("Any", self)
        self.certificates = Certificates(client, Applier(client, "test"), self.clock, HOME)

    async def find(self, _struct: type[Secret], name: str, namespace: str) -> Secret | None:
        self.asked.append((namespace, name))
        return self.secrets.get((namespace, name))

    async def patch(self, _kind: Any, name: str, body: dict[str, Any], **_: Any) -> dict[str, Any]:
        self.written.append(f"apply {name}")
        self.secrets[body["metadata"]["namespace"], name] = msgspec.convert(body, Secret, str_keys=True)
        return body

    async def delete(self, _kind: Any, name: str, namespace: str, **_: Any) -> bool:
        self.written.append(f"delete {name}")
        return self.secrets.pop((namespace, name), None) is not None

    def issue(self, *names: str) -> None:
        """Have the administrator make a certificate."""
        now = self.clock.now()
        ca = certs.make_ca("test", now, timedelta(days=30))
        leaf = certs.make_leaf(ca, names or ("*.services.example.com",), now, timedelta(days=9))
        self.secrets[SOURCE] = Secret(data={"tls.crt": leaf.certificate, "tls.key": leaf.key})


def wanting(mode: str = "CustomCertificate") -> Any:
    exposure = Exposure("External", "Token", Https(mode, "issuer", "wildcard"))
    return orders.intent(policy=orders.policy(exposure=exposure))


async def test_a_missing_certificate_is_told_and_then_copied_once() -> None:
    world, wanted = World(), wanting()
    missing = await world.certificates.see_to(wanted)
    assert missing is not None
    assert (missing.condition, missing.reason) == (
        OrderCondition.RUNTIME_CURRENT,
        OrderReason.CERTIFICATE_MISSING,
    )
    assert missing.passing
    world.issue()
    for _ in range(2):
        assert await world.certificates.see_to(wanted) is None
    assert world.written == ["apply support-llm-tls"]
    assert world.secrets[COPY].data == world.secrets[SOURCE].data
    assert set(world.asked) == {COPY, SOURCE}, "no other Secret is looked at"


async def test_a_copy_follows_its_original_and_outlives_a_bad_one() -> None:
    world, wanted = World(), wanting()
    world.issue()
    await world.certificates.see_to(wanted)
    world.issue()
    assert await world.certificates.see_to(wanted) is None
    served = world.secrets[COPY].data
    assert served == world.secrets[SOURCE].data
    world.issue("elsewhere.example.com")
    wrong = await world.certificates.see_to(wanted)
    assert wrong is not None
    assert wrong.reason is OrderReason.CERTIFICATE_INVALID
    del world.secrets[SOURCE]
    assert isinstance(await world.certificates.see_to(wanted), Halt)
    assert world.secrets[COPY].data == served


async def test_a_secret_of_somebody_else_is_left_alone() -> None:
    world, wanted = World(), wanting()
    world.issue()
    world.secrets[COPY] = Secret(metadata=msgspec.structs.replace(Secret().metadata, name=COPY[1]))
    refused = await world.certificates.see_to(wanted)
    assert refused is not None
    assert refused.reason is OrderReason.OBJECT_CONFLICT
    await world.certificates.retire(wanting("CertManager"))
    assert world.written == []


async def test_a_copy_goes_when_the_order_is_served_otherwise() -> None:
    world = World()
    world.issue()
    await world.certificates.see_to(wanting())
    await world.certificates.retire(wanting())
    assert COPY in world.secrets
    await world.certificates.retire(wanting("CertManager"))
    assert COPY not in world.secrets
    assert world.written == ["apply support-llm-tls", "delete support-llm-tls"]


async def test_orders_with_other_certificates_ask_for_none() -> None:
    world = World()
    assert await world.certificates.see_to(wanting("CertManager")) is None
    assert world.asked == []
