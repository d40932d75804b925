"""What the parts of the module need before they can start, kept by the leader.

Certificates of every Service and the bundle to trust, DMCR's signing key, the owner's mark of the store, and
the webhook configuration's CA. What belongs here: keeping those objects. What does not: X.509
(``kubekit.certs``).
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from aimodels.catalog.names import MODULE_LABEL
from kubekit.certs import is_certificate
from kubekit.errors import AlreadyExists, KubeError
from kubekit.resources import MutatingWebhookConfiguration, Namespace, Secret
from kubekit.trust import CA, Place, ServingCertificate, ensure_certificates, service_names
from opskit.logging import logger

if TYPE_CHECKING:
    from aimodels.catalog.registry import Registry
    from kubekit.certs import Policy
    from kubekit.client import Client
    from opskit.clock import Clock

_LOG = logger(__name__)

TRUST = "ai-models-trust"
CA_SECRET = "ai-models-ca"  # noqa: S105 - a name
SIGNING_SECRET = "dmcr-signing-key"  # noqa: S105 - a name
OWNER_SECRET = "dmcr-bootstrap"  # noqa: S105 - a name
WEBHOOK = "ai-models"
_SIGNING_KEY, _OWNER_KEY = "signing.pem", "owner"

_LOOK_EVERY = 300.0
_AFTER_FAILURE = 5.0
#: with short-lived certificates (tests) a look per so many parts of their life
_PARTS = 30


@dataclass(frozen=True)
class BootstrapSettings:
    """Where the objects live, how users reach the gateway, how long certificates live."""

    namespace: str
    public_upload_url: str
    policy: Policy
    #: Secret whose ca.crt checks what stands before the gateway; empty: no authority that must be told
    public_ca_secret: str = ""


class Bootstrap:
    """Keeps what the parts need; ``bundle`` is the CA bundle once it has been made."""

    def __init__(self, client: Client, registry: Registry, settings: BootstrapSettings, clock: Clock) -> None:
        self._client = client
        self._registry = registry
        self._settings = settings
        self._clock = clock
        self._bundle = b""
        self._public = b""

    def bundle(self) -> bytes:
        """Return what clients of our Services have to trust."""
        return self._bundle

    def upload_trust(self) -> bytes:
        """Return what users have to trust, whether they reach the gateway itself or what stands before it."""
        return self._bundle + self._public

    async def run(self) -> None:
        """Keep everything as it should be, for ever."""
        every = min(_LOOK_EVERY, self._settings.policy.leaf_validity.total_seconds() / _PARTS)
        while True:
            try:
                await self.once()
            except KubeError as error:
                _LOG.warning("bootstrap is repeated", err=error)
                await self._clock.sleep(_AFTER_FAILURE)
                continue
            await self._clock.sleep(every)

    async def once(self) -> None:
        """Make what is missing and renew what is due."""
        namespace, labels = self._settings.namespace, dict(MODULE_LABEL)
        place = Place(namespace, CA_SECRET, TRUST, labels, trust_secret=TRUST)
        await self._make_secret(SIGNING_SECRET, _SIGNING_KEY, _new_signing_key())
        owner = (await self._client.get(Namespace, "kube-system")).metadata.uid
        await self._make_secret(OWNER_SECRET, _OWNER_KEY, owner.encode())
        authority = await ensure_certificates(
            self._client, place, self._servings(), now=self._clock.now(), policy=self._settings.policy
        )
        await self._trust(authority.bundle, await self._public_authority())
        await self._announce_to_webhook()

    async def _trust(self, bundle: bytes, public: bytes) -> None:
        """Have both trusted at once, and every model look again when either is another."""
        ours, theirs = bundle != self._bundle, public != self._public
        self._bundle, self._public = bundle, public
        if ours:
            await self._registry.trust(await asyncio.to_thread(_context, bundle))
            _LOG.info("certificates are in place")
        elif theirs:
            self._registry.changed()

    async def _public_authority(self) -> bytes:
        """Return the certificate of the authority that stands behind the public address, if it is told."""
        name = self._settings.public_ca_secret
        found = await self._client.find(Secret, name, self._settings.namespace) if name else None
        given = found.data.get(CA, b"").strip() if found else b""
        if not given:
            return b""
        if not is_certificate(given):
            _LOG.warning("ca.crt of the public address holds no certificate", name=name)
            return b""
        return given + b"\n"

    def _servings(self) -> tuple[ServingCertificate, ...]:
        namespace = self._settings.namespace
        host = urlsplit(self._settings.public_upload_url).hostname
        public = (host,) if host else ()
        return (
            ServingCertificate("ai-models-controller-tls", service_names("ai-models-controller", namespace)),
            ServingCertificate("dmcr-tls", service_names("dmcr", namespace)),
            ServingCertificate(
                "ai-models-upload-gateway-tls",
                service_names("ai-models-upload-gateway", namespace, *public),
            ),
        )

    async def _make_secret(self, name: str, key: str, value: bytes) -> None:
        """Make the Secret unless it is there: keys and marks never change by themselves."""
        if await self._client.find(Secret, name, self._settings.namespace) is not None:
            return
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": name,
                "namespace": self._settings.namespace,
                "labels": dict(MODULE_LABEL),
            },
            "type": "Opaque",
            "data": {key: base64.b64encode(value).decode()},
        }
        try:
            await self._client.create(manifest)
        except AlreadyExists:
            return

    async def _announce_to_webhook(self) -> None:
        found = await self._client.find(MutatingWebhookConfiguration, WEBHOOK)
        if found is None:
            return
        wanted = base64.b64encode(self._bundle).decode()
        patch: list[dict[str, Any]] = []
        for place, webhook in enumerate(found.webhooks):
            if webhook.get("clientConfig", {}).get("caBundle") != wanted:
                path = f"/webhooks/{place}"
                patch += [
                    {"op": "test", "path": f"{path}/name", "value": webhook.get("name")},
                    {"op": "add", "path": f"{path}/clientConfig/caBundle", "value": wanted},
                ]
        if patch:
            await self._client.patch(MutatingWebhookConfiguration, WEBHOOK, patch, content="json")


def _context(bundle: bytes) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=bundle.decode())


def _new_signing_key() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
