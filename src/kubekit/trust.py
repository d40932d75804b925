"""The cluster's copies of our certificates: the CA, a TLS Secret per Service, the bundle to trust.

What belongs here: keeping those objects as ``kubekit.certs`` says they should be. What does not: X.509.

Only the leader calls this. Every write says which version it replaces, so a stale leader cannot undo the work
of the new one.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kubekit.certs import (
    DEFAULT_POLICY,
    Authority,
    Pair,
    Policy,
    expires,
    is_certificate,
    leaf_is_due,
    make_leaf,
    next_authority,
    sound,
)
from kubekit.errors import AlreadyExists, Conflict
from kubekit.resources import ConfigMap, Secret
from opskit import logging, metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from kubekit.client import Client

K = TypeVar("K", Secret, ConfigMap)
T = TypeVar("T")

_log = logging.logger(__name__)

CERTIFICATE, KEY, CA = "tls.crt", "tls.key", "ca.crt"
_SUCCESSOR, _SUCCESSOR_KEY, _PREDECESSOR = "next.crt", "next.key", "previous.crt"
_TLS = "kubernetes.io/tls"
_ATTEMPTS = 5

_EXPIRY = metrics.gauge(
    "certificate_expiry_timestamp_seconds", "When a certificate of our making ends.", ["secret"]
)


@dataclass(frozen=True)
class ServingCertificate:
    """A TLS Secret and the DNS names and addresses that it is for."""

    secret: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """Where the objects live and how they are called and labelled."""

    namespace: str
    ca_secret: str
    trust_config_map: str
    labels: Mapping[str, str]
    #: for those who read authorities from Secrets alone, as ingress controllers do
    trust_secret: str = ""


def service_names(service: str, namespace: str, *more: str) -> tuple[str, ...]:
    """Return the names under which a Service is reached inside the cluster, and the additional ones."""
    host = f"{service}.{namespace}.svc"
    return (host, f"{host}.cluster.local", f"{service}.{namespace}", service, *more)


async def ensure_certificates(
    client: Client,
    place: Place,
    servings: tuple[ServingCertificate, ...],
    *,
    now: datetime,
    policy: Policy = DEFAULT_POLICY,
) -> Authority:
    """Make CA, bundle and TLS Secrets as they should be now; return the authority they were made with.

    The bundle is written before any leaf, so that no server shows a certificate that nobody can check.
    """
    keeper = _Keeper(client, place)
    authority = await keeper.authority(now, policy)
    await keeper.bundle(authority)
    for serving in servings:
        await keeper.leaf(serving, authority, now, policy)
    return authority


class _Keeper:
    def __init__(self, client: Client, place: Place) -> None:
        self._client = client
        self._place = place

    async def authority(self, now: datetime, policy: Policy) -> Authority:
        name = self._place.ca_secret

        def wanted(secret: Secret | None) -> tuple[Authority, dict[str, Any] | None]:
            old = None if secret is None else _read_authority(secret)
            new = next_authority(old, f"{self._place.namespace} {name}", now, policy)
            return new, None if new == old else self._secret(name, _authority_data(new))

        authority = await self._keep(Secret, name, wanted)
        _EXPIRY.labels(name).set(expires(authority.current.certificate).timestamp())
        return authority

    async def bundle(self, authority: Authority) -> None:
        name, text = self._place.trust_config_map, authority.bundle.decode()

        def wanted(found: ConfigMap | None) -> tuple[None, dict[str, Any] | None]:
            stands = found is not None and found.data.get(CA) == text
            return None, None if stands else self._manifest("ConfigMap", name) | {"data": {CA: text}}

        await self._keep(ConfigMap, name, wanted)
        if self._place.trust_secret:
            await self._bundle_as_secret(self._place.trust_secret, authority.bundle)

    async def _bundle_as_secret(self, name: str, bundle: bytes) -> None:
        def wanted(found: Secret | None) -> tuple[None, dict[str, Any] | None]:
            stands = found is not None and found.data.get(CA) == bundle
            return None, None if stands else self._secret(name, {CA: bundle}, kind="Opaque")

        await self._keep(Secret, name, wanted)

    async def leaf(
        self, serving: ServingCertificate, authority: Authority, now: datetime, policy: Policy
    ) -> None:
        def wanted(secret: Secret | None) -> tuple[Pair, dict[str, Any] | None]:
            old = None if secret is None else _read_pair(secret.data, CERTIFICATE, KEY)
            if old is not None and not leaf_is_due(old, authority.current, serving.names, now):
                return old, None
            new = make_leaf(authority.current, serving.names, now, policy.leaf_validity)
            data = {CERTIFICATE: new.certificate, KEY: new.key}
            return new, self._secret(serving.secret, data)

        pair = await self._keep(Secret, serving.secret, wanted)
        _EXPIRY.labels(serving.secret).set(expires(pair.certificate).timestamp())

    async def _keep(
        self, struct: type[K], name: str, wanted: Callable[[K | None], tuple[T, dict[str, Any] | None]]
    ) -> T:
        """Write what is wanted instead of what is there, if anything; return what came with it."""
        for _ in range(_ATTEMPTS):
            found = await self._client.find(struct, name, self._place.namespace)
            kept, manifest = wanted(found)
            if manifest is None or await self._write(found, manifest):
                return kept
        raise Conflict(
            409,
            "Conflict",
            f"{struct.KIND.name} {name} was changed by somebody else {_ATTEMPTS} times in a row",
        )

    def _secret(self, name: str, data: Mapping[str, bytes], kind: str = _TLS) -> dict[str, Any]:
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        return self._manifest("Secret", name) | {"type": kind, "data": encoded}

    def _manifest(self, kind: str, name: str) -> dict[str, Any]:
        metadata = {"name": name, "namespace": self._place.namespace, "labels": dict(self._place.labels)}
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata}

    async def _write(self, old: Secret | ConfigMap | None, manifest: dict[str, Any]) -> bool:
        """Replace exactly the version that was read; return False when it is another one by now."""
        try:
            if old is None:
                await self._client.create(manifest)
            else:
                guard = {"resourceVersion": old.metadata.resource_version}
                body = manifest | {"metadata": manifest["metadata"] | guard}
                kind, name = type(old).KIND, old.metadata.name
                path = kind.path(self._place.namespace, name)
                await self._client.request("PUT", path, body=body)
        except (AlreadyExists, Conflict):
            return False
        return True


def _read_authority(secret: Secret) -> Authority | None:
    """Return the authority; what of it cannot be read is as good as lost, and made anew."""
    current = _read_pair(secret.data, CERTIFICATE, KEY)
    if current is None or not sound(current):
        _log.error("the authority cannot be read, another one is made", name=secret.metadata.name)
        return None
    successor = _read_pair(secret.data, _SUCCESSOR, _SUCCESSOR_KEY)
    if successor is not None and not sound(successor):
        successor = None
    predecessor = secret.data.get(_PREDECESSOR)
    if predecessor is not None and not is_certificate(predecessor):
        predecessor = None
    return Authority(current, successor, predecessor)


def _read_pair(data: Mapping[str, bytes], certificate: str, key: str) -> Pair | None:
    if certificate in data and key in data:
        return Pair(data[certificate], data[key])
    return None


def _authority_data(authority: Authority) -> dict[str, bytes]:
    data = {CERTIFICATE: authority.current.certificate, KEY: authority.current.key}
    if authority.successor is not None:
        data |= {_SUCCESSOR: authority.successor.certificate, _SUCCESSOR_KEY: authority.successor.key}
    if authority.predecessor is not None:
        data[_PREDECESSOR] = authority.predecessor
    return data
