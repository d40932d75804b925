"""What the parts need, on a real API server: certificates that hold, keys that stay, the webhook's CA."""

from __future__ import annotations

import base64
import ssl
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from aimodels.catalog import bootstrap
from aimodels.catalog.bootstrap import Bootstrap, BootstrapSettings
from aimodels.catalog.registry import Registry
from kubekit.apply import Applier
from kubekit.certs import Policy, names_of
from kubekit.client import Client, connect
from kubekit.resources import ConfigMap, MutatingWebhookConfiguration, Namespace, Secret
from opskit.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

DAY = 86400.0
PUBLIC = "models-example-com"


class World:
    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.clock = ManualClock(datetime.now(UTC))
        self.registry = Registry("https://dmcr.invalid", None, self.clock)
        policy = Policy(leaf_validity=timedelta(days=90))
        settings = BootstrapSettings(namespace, "https://203.0.113.7:30443", policy, PUBLIC)
        self.bootstrap = Bootstrap(client, self.registry, settings, self.clock)

    async def public(self, authority: bytes) -> None:
        """Have an authority in the Secret of the certificate that the public address shows."""
        data = {"ca.crt": base64.b64encode(authority).decode()}
        head = {"name": PUBLIC, "namespace": self.namespace}
        await Applier(self.client, "issuer").apply(
            {"apiVersion": "v1", "kind": "Secret", "metadata": head, "data": data}
        )

    async def secret(self, name: str) -> dict[str, bytes]:
        return (await self.client.get(Secret, name, self.namespace)).data


@pytest.fixture
async def world(control_plane: Path, namespace: str) -> AsyncIterator[World]:
    async with connect(control_plane) as client:
        world = World(client, namespace)
        yield world
        await world.registry.close()


async def test_everything_is_made_once_and_then_left_alone(world: World) -> None:
    await world.bootstrap.once()

    signing = load_pem_private_key((await world.secret("dmcr-signing-key"))["signing.pem"], None)
    assert isinstance(signing, Ed25519PrivateKey)
    kube_system = await world.client.get(Namespace, "kube-system")
    assert (await world.secret("dmcr-bootstrap"))["owner"].decode() == kube_system.metadata.uid
    trust = await world.client.get(ConfigMap, "ai-models-trust", world.namespace)
    assert trust.data["ca.crt"].encode() == world.bootstrap.bundle()
    assert await world.secret("ai-models-trust") == {"ca.crt": world.bootstrap.bundle()}

    names = (
        "ai-models-trust",
        "ai-models-ca",
        "ai-models-controller-tls",
        "dmcr-tls",
        "dmcr-signing-key",
        "dmcr-bootstrap",
    )
    before = [await world.client.get(Secret, name, world.namespace) for name in names]
    await world.bootstrap.once()
    after = [await world.client.get(Secret, name, world.namespace) for name in names]
    assert [one.metadata.resource_version for one in before] == [
        one.metadata.resource_version for one in after
    ]


async def test_certificates_are_for_the_services_and_the_public_address(world: World) -> None:
    await world.bootstrap.once()

    gateway = await world.client.get(Secret, "ai-models-upload-gateway-tls", world.namespace)
    assert gateway.type == "kubernetes.io/tls"
    names = names_of(gateway.data["tls.crt"])
    assert f"ai-models-upload-gateway.{world.namespace}.svc" in names
    assert "203.0.113.7" in names
    context = ssl.create_default_context(cadata=world.bootstrap.bundle().decode())
    assert context.verify_mode is ssl.CERT_REQUIRED


async def test_leaves_are_renewed_at_two_thirds_and_the_authority_stays(world: World) -> None:
    await world.bootstrap.once()
    first, bundle = await world.secret("dmcr-tls"), world.bootstrap.bundle()
    assert first.keys() == {"tls.crt", "tls.key"}, "what to trust stands in the bundle alone"

    await world.clock.advance(59 * DAY)
    await world.bootstrap.once()
    assert await world.secret("dmcr-tls") == first

    await world.clock.advance(2 * DAY)
    await world.bootstrap.once()
    renewed = await world.secret("dmcr-tls")
    assert renewed["tls.crt"] != first["tls.crt"]
    assert world.bootstrap.bundle() == bundle


async def test_a_new_authority_is_trusted_before_it_signs(world: World) -> None:
    await world.bootstrap.once()
    old = (await world.secret("ai-models-ca"))["tls.crt"]

    await world.clock.advance(3650 * DAY * 2 / 3 + 1)
    await world.bootstrap.once()
    announced = await world.secret("ai-models-ca")
    assert announced["tls.crt"] == old
    assert announced["next.crt"] in world.bootstrap.bundle()
    signed_by_old = (await world.secret("dmcr-tls"))["tls.crt"]

    await world.clock.advance(3601)
    await world.bootstrap.once()
    ruling = await world.secret("ai-models-ca")
    assert ruling["tls.crt"] == announced["next.crt"]
    assert ruling["previous.crt"] == old
    assert {old, ruling["tls.crt"]} == set(_split(world.bootstrap.bundle()))
    assert (await world.secret("dmcr-tls"))["tls.crt"] != signed_by_old


async def test_a_broken_secret_is_made_anew(world: World) -> None:
    await world.bootstrap.once()
    body = {"data": {"tls.crt": base64.b64encode(b"rubbish").decode()}}
    await world.client.patch(Secret, "dmcr-tls", body, namespace=world.namespace)

    await world.bootstrap.once()

    assert b"BEGIN CERTIFICATE" in (await world.secret("dmcr-tls"))["tls.crt"]


@pytest.mark.parametrize("part", ["tls.crt", "tls.key"])
async def test_a_broken_authority_is_replaced_and_signs_everything_again(world: World, part: str) -> None:
    await world.bootstrap.once()
    old = await world.secret("ai-models-ca")
    body = {"data": {part: base64.b64encode(b"rubbish").decode()}}
    await world.client.patch(Secret, "ai-models-ca", body, namespace=world.namespace)

    await world.bootstrap.once()

    new = await world.secret("ai-models-ca")
    assert new["tls.crt"] not in (old["tls.crt"], b"rubbish")
    assert world.bootstrap.bundle() == new["tls.crt"]
    leaf = x509.load_pem_x509_certificate((await world.secret("dmcr-tls"))["tls.crt"])
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(new["tls.crt"]))


async def test_the_webhook_learns_the_authority_and_keeps_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"ai-models-{uuid.uuid4().hex[:8]}"
    monkeypatch.setattr(bootstrap, "WEBHOOK", name)
    webhook: dict[str, Any] = {
        "name": "workloads.ai-models.deckhouse.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "clientConfig": {"service": {"name": "ai-models-controller", "namespace": world.namespace}},
        "rules": [],
    }
    kind = MutatingWebhookConfiguration.KIND
    await world.client.create(
        {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, "webhooks": [webhook]}
    )
    try:
        await world.bootstrap.once()
        found = await world.client.get(MutatingWebhookConfiguration, name)
        bundle = base64.b64decode(found.webhooks[0]["clientConfig"]["caBundle"])
        assert bundle == world.bootstrap.bundle()

        await world.bootstrap.once()
        again = await world.client.get(MutatingWebhookConfiguration, name)
        assert again.metadata.resource_version == found.metadata.resource_version
    finally:
        await world.client.delete(MutatingWebhookConfiguration, name)


def _split(bundle: bytes) -> list[bytes]:
    end = b"-----END CERTIFICATE-----\n"
    return [part + end for part in bundle.split(end) if part]


async def test_users_are_told_the_authority_of_what_stands_before_the_gateway(world: World) -> None:
    await world.bootstrap.once()
    assert world.bootstrap.upload_trust() == world.bootstrap.bundle()

    theirs = (await world.secret("ai-models-ca"))["tls.crt"]
    for told, known in ((b"not yet", False), (theirs.rstrip(), True)):
        await world.public(told)
        await world.bootstrap.once()
        added = theirs if known else b""
        assert world.bootstrap.upload_trust() == world.bootstrap.bundle() + added
