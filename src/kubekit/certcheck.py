"""Whether a certificate that somebody else has made can serve a host. Pure, but remembers which pairs match.

What belongs here: what any client would refuse. What does not: whether a client trusts the issuer, which only
clients know; certificates of our own (``kubekit.certs``).
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

if TYPE_CHECKING:
    from datetime import datetime

    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

_SHOWN = 5
#: verdicts on pairs of certificate and key by their digests, at most so many; the oldest makes way
_KNOWN = 256
_known: dict[tuple[bytes, bytes], str | None] = {}


class _UnreadableError(Exception):
    """The message says which part cannot be read."""


def fault(certificate: bytes, key: bytes, host: str, now: datetime) -> str | None:
    """Return what keeps the pair from serving the host, or None; the server's own comes first."""
    try:
        leaf = _leaf(certificate)
        public, names = leaf.public_key(), _names(leaf)
    except _UnreadableError as error:
        return str(error)
    except (ValueError, UnsupportedAlgorithm, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return "tls.crt is of a kind that cannot be read"
    wrong = _pair_fault(certificate, key, public)
    if wrong is not None:
        return wrong
    if now > leaf.not_valid_after_utc:
        return f"it ended at {leaf.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    if now < leaf.not_valid_before_utc:
        return f"it begins at {leaf.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
    return None if any(_covers(name, host) for name in names) else f"it is for {_list(names)}, not for {host}"


def _pair_fault(certificate: bytes, key: bytes, public: PublicKeyTypes) -> str | None:
    """Return what is wrong with the key; reading one checks its primes, so that each pair is read once."""
    pair = sha256(certificate).digest(), sha256(key).digest()
    if pair not in _known:
        if len(_known) >= _KNOWN:
            del _known[next(iter(_known))]
        _known[pair] = _key_fault(key, public)
    return _known[pair]


def _key_fault(key: bytes, public: PublicKeyTypes) -> str | None:
    try:
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "tls.key is no private key in PEM, or is locked by a password"
    same = private.public_key() == public
    return None if same else "tls.key is not the key of the certificate in tls.crt"


def _leaf(certificate: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificates(certificate)[0]
    except (ValueError, x509.InvalidVersion) as error:
        raise _UnreadableError("tls.crt is no certificate in PEM") from error


def _names(leaf: x509.Certificate) -> list[str]:
    try:
        alternative = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return alternative.get_values_for_type(x509.DNSName)


def _covers(name: str, host: str) -> bool:
    """Tell whether a name in a certificate means the host; a star stands for one whole label, the first."""
    name, host = name.lower().rstrip("."), host.lower().rstrip(".")
    if name.startswith("*."):
        return name[2:] == host.partition(".")[2]
    return name == host


def _list(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "no host"
