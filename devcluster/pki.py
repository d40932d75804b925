"""Certificates and kubeconfigs of one cluster."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubekit.certs import general_name, key_pem, key_usage, unsigned

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.settings import Settings

LIFETIME = timedelta(days=3650)
COMPONENTS = ("controller-manager", "scheduler", "proxy", "kubelet")


@dataclass(frozen=True)
class Identity:
    """A certificate to issue: file name, subject and, for servers, the names it serves."""

    name: str
    common_name: str
    organization: str = ""
    server_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Authority:
    """A certificate authority that can sign."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def create_pki(settings: Settings) -> None:
    """Make what is missing: an existing authority, key or certificate stays as it is."""
    settings.pki.mkdir(parents=True, exist_ok=True)
    settings.configs.mkdir(parents=True, exist_ok=True)
    authority = _authority(settings.pki, "ca", "devcluster")
    front_proxy = _authority(settings.pki, "front-proxy-ca", "devcluster-front-proxy")
    _service_account_key(settings.pki)
    for identity in identities(settings):
        _issue(settings.pki, authority, identity)
    _issue(settings.pki, front_proxy, Identity("front-proxy-client", "front-proxy-client"))
    _write_kubeconfig(settings, "admin", settings.kubeconfig)
    for component in COMPONENTS:
        _write_kubeconfig(settings, component, settings.component_kubeconfig(component))


def issue(settings: Settings, identity: Identity) -> tuple[Path, Path]:
    """Return where the certificate and the key of somebody else lie, made when they are not there."""
    _issue(settings.pki, _authority(settings.pki, "ca", "devcluster"), identity)
    return settings.pki / f"{identity.name}.crt", settings.pki / f"{identity.name}.key"


def identities(settings: Settings) -> tuple[Identity, ...]:
    """Return who has a certificate of the cluster's authority."""
    node = f"system:node:{settings.node_name}"
    service = "kubernetes.default.svc"
    addresses = ("127.0.0.1", settings.node_ip, settings.kubernetes_service_ip)
    api_names = (
        "localhost",
        "kubernetes",
        "kubernetes.default",
        service,
        f"{service}.cluster.local",
        *addresses,
    )
    return (
        Identity("apiserver", "kube-apiserver", server_names=api_names),
        Identity("apiserver-kubelet-client", "kube-apiserver-kubelet-client", "system:masters"),
        Identity("admin", "admin", "system:masters"),
        Identity("controller-manager", "system:kube-controller-manager"),
        Identity("scheduler", "system:kube-scheduler"),
        Identity("proxy", "system:kube-proxy"),
        Identity("kubelet", node, "system:nodes"),
        Identity("kubelet-server", node, "system:nodes", (settings.node_name, settings.node_ip)),
    )


def _authority(pki: Path, name: str, common_name: str) -> Authority:
    certificate_file, key_file = pki / f"{name}.crt", pki / f"{name}.key"
    if certificate_file.exists():
        key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{key_file} holds no elliptic-curve key")
        return Authority(x509.load_pem_x509_certificate(certificate_file.read_bytes()), key)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(Identity(name, common_name))
    certificate = (
        _unsigned(subject, subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(key_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write_pair(pki, name, key, certificate)
    return Authority(certificate, key)


def _issue(pki: Path, authority: Authority, identity: Identity) -> None:
    if (pki / f"{identity.name}.crt").exists():
        return
    key = ec.generate_private_key(ec.SECP256R1())
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if identity.server_names else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        _unsigned(_subject(identity), authority.certificate.subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False
        )
    )
    if identity.server_names:
        names = [general_name(name) for name in identity.server_names]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    _write_pair(pki, identity.name, key, builder.sign(authority.key, hashes.SHA256()))


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    return unsigned(subject, issuer, key, datetime.now(UTC), LIFETIME)


def _subject(identity: Identity) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, identity.common_name)]
    if identity.organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, identity.organization))
    return x509.Name(attributes)


def _service_account_key(pki: Path) -> None:
    """Make the key that signs ServiceAccount tokens, and its public half that checks them."""
    private, public = pki / "service-account.key", pki / "service-account.pub"
    if public.exists():
        return
    key = ec.generate_private_key(ec.SECP256R1())
    write_private(private, key_pem(key))
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def _write_pair(pki: Path, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    """The certificate comes last: that it exists says that both do."""
    write_private(pki / f"{name}.key", key_pem(key))
    (pki / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, from the first byte on."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _write_kubeconfig(settings: Settings, identity: str, path: Path) -> None:
    """Write a kubeconfig that needs no other file."""
    cluster = {
        "server": settings.apiserver_url,
        "certificate-authority-data": _base64(settings.pki / "ca.crt"),
    }
    user = {
        "client-certificate-data": _base64(settings.pki / f"{identity}.crt"),
        "client-key-data": _base64(settings.pki / f"{identity}.key"),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "devcluster",
        "clusters": [{"name": "devcluster", "cluster": cluster}],
        "users": [{"name": identity, "user": user}],
        "contexts": [{"name": "devcluster", "context": {"cluster": "devcluster", "user": identity}}],
    }
    write_private(path, json.dumps(config, indent=2).encode())


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
