"""Certificates of our own making: a CA and the leaves that it signs. Pure: time comes in, PEM goes out.

What belongs here: X.509 and when to renew. What does not: where they are kept (``kubekit.trust``).

A new CA is trusted before it signs: it waits as ``successor`` until everybody has read the bundle, then takes
over; the old certificate stays in the bundle as ``predecessor`` until it expires.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: clocks of other machines may be this far behind ours
_SKEW = timedelta(minutes=5)
_COMMON_NAME_LIMIT = 64


class BadCertificate(Exception):
    """Stored PEM that is not a certificate or a key of ours."""


@dataclass(frozen=True)
class Policy:
    """How long certificates live, and how long a new CA is announced before it signs."""

    ca_validity: timedelta = timedelta(days=3650)
    leaf_validity: timedelta = timedelta(days=90)
    announcement: timedelta = timedelta(hours=1)


DEFAULT_POLICY = Policy()


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        """Show no key."""
        return f"Pair({len(self.certificate)} bytes)"


@dataclass(frozen=True)
class Authority:
    """The CA that signs, the one that will sign next, and the one that did before."""

    current: Pair
    successor: Pair | None = None
    predecessor: bytes | None = None

    @property
    def bundle(self) -> bytes:
        """What a client has to trust: every certificate that may have signed a leaf in use."""
        parts = [self.current.certificate]
        if self.successor is not None:
            parts.append(self.successor.certificate)
        if self.predecessor is not None:
            parts.append(self.predecessor)
        return b"".join(part.rstrip(b"\n") + b"\n" for part in parts)


def next_authority(authority: Authority | None, name: str, now: datetime, policy: Policy) -> Authority:
    """Return the authority as it should be now; the same one when there is nothing to do."""
    if authority is None:
        return Authority(make_ca(name, now, policy.ca_validity))
    current, successor, predecessor = authority.current, authority.successor, authority.predecessor
    if predecessor is not None and now >= _parse(predecessor).not_valid_after_utc:
        predecessor = None
    if successor is None and _two_thirds_over(current.certificate, now):
        successor = make_ca(name, now, policy.ca_validity)
    elif successor is not None and now - _made(successor.certificate) >= policy.announcement:
        current, successor, predecessor = successor, None, current.certificate
    return Authority(current, successor, predecessor)


def make_ca(name: str, now: datetime, validity: timedelta) -> Pair:
    """Return a self-signed CA that may sign leaves only."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_COMMON_NAME_LIMIT])])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        unsigned(subject, subject, key.public_key(), now, validity)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs=True), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def make_leaf(ca: Pair, names: Sequence[str], now: datetime, validity: timedelta) -> Pair:
    """Return a server's certificate for these DNS names and IP addresses; the first is its subject."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = _parse(ca.certificate)
    issuer_key = _parse_key(ca.key)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:_COMMON_NAME_LIMIT])])
    certificate = (
        unsigned(subject, issuer.subject, key.public_key(), now, validity)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([general_name(name) for name in names]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
        .sign(issuer_key, hashes.SHA256())
    )
    return _pair(certificate, key)


def leaf_is_due(leaf: Pair | None, ca: Pair, names: Iterable[str], now: datetime) -> bool:
    """Tell whether a new leaf is needed: none, unreadable, two thirds over, other names, or another CA's."""
    if leaf is None:
        return True
    try:
        _parse(leaf.certificate).verify_directly_issued_by(_parse(ca.certificate))
    except (BadCertificate, InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
        return True
    return (
        not sound(leaf)
        or names_of(leaf.certificate) != frozenset(names)
        or _two_thirds_over(leaf.certificate, now)
    )


def sound(pair: Pair) -> bool:
    """Tell whether both parts can be read and belong together."""
    try:
        return _parse_key(pair.key).public_key() == _parse(pair.certificate).public_key()
    except (BadCertificate, UnsupportedAlgorithm, ValueError):
        return False


def names_of(certificate: bytes) -> frozenset[str]:
    """Return the DNS names and addresses that a certificate is for."""
    extension = _parse(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return frozenset(str(name.value) for name in extension.value)


def is_certificate(pem: bytes) -> bool:
    """Tell whether the text can be read."""
    try:
        _parse(pem)
    except BadCertificate:
        return False
    return True


def expires(certificate: bytes) -> datetime:
    """Return when the certificate ends."""
    return _parse(certificate).not_valid_after_utc


def unsigned(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    validity: timedelta,
) -> x509.CertificateBuilder:
    """Return a certificate that still has to say what it is for, and to be signed."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + validity)
    )


def key_usage(*, signs: bool) -> x509.KeyUsage:
    """Return what a key may do: sign other certificates, or serve."""
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def general_name(name: str) -> x509.GeneralName:
    """Return a DNS name or an IP address as certificates hold it."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key_pem(key),
    )


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as it is written."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _parse(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except (ValueError, x509.InvalidVersion) as error:
        raise BadCertificate(f"not a certificate: {error}") from error


def _parse_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadCertificate(f"not a private key: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadCertificate("not an elliptic-curve key")
    return key


def _made(certificate: bytes) -> datetime:
    return _parse(certificate).not_valid_before_utc + _SKEW


def _two_thirds_over(certificate: bytes, now: datetime) -> bool:
    made, end = _made(certificate), expires(certificate)
    return now - made >= (end - made) * 2 / 3
