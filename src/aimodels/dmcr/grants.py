"""Grants: short-lived EdDSA tokens that say which transfer may do what in which repository.

What belongs here: signing, verifying, keys and their rotation. What does not: who gets a grant (``tokens``)
and whether its transfer is still allowed (``door``).

The key file holds one or more Ed25519 private keys in PEM: the first signs, all verify, so that a rotation
puts a new key in front and drops the old one a grant's life later. A key's id is the hash of its public half.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from modelio.wire import AUDIENCE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opskit.clock import Clock

ALGORITHM = "EdDSA"
ISSUER = "dmcr"
LIFE_SECONDS = 600
LEEWAY_SECONDS = 60
MOST_GRANT_BYTES = 16 * 1024

_MOST_KEY_FILE = 64 * 1024
_KEY = re.compile(rb"-----BEGIN PRIVATE KEY-----.+?-----END PRIVATE KEY-----", re.DOTALL)
#: Time claims are checked against our clock below; everything else here.
_OPTIONS: Any = {
    "verify_exp": False,
    "verify_iat": False,
    "verify_nbf": False,
    "require": ["exp", "iat", "jti", "sub", "aud", "iss"],
}


class GrantRefused(Exception):
    """The grant is not one of ours, or not any more; the message says why and never shows it."""


class KeysUnusable(Exception):
    """The key file has no Ed25519 key that can sign."""


class GrantedAccess(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rights in one life of one repository; ``digest`` narrows reading to one manifest's closure."""

    repository: str
    actions: tuple[Literal["pull", "push", "delete"], ...]
    life: str | None = None
    digest: str | None = None


class Claims(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a grant says; ``sub`` is the identity that the API server confirmed, times are UTC seconds."""

    sub: str
    jti: str
    iat: int
    exp: int
    transfer: str | None = None
    catalogue: bool = False
    access: tuple[GrantedAccess, ...] = ()


class Keys:
    """The signing key and all keys that verify, by key id."""

    def __init__(self, keys: Sequence[Ed25519PrivateKey]) -> None:
        if not keys:
            raise KeysUnusable("there is no Ed25519 private key to sign grants with")
        self.signing = keys[0]
        self.signing_id = key_id(keys[0])
        self.verifying = {key_id(key): key.public_key() for key in keys}

    @classmethod
    def read(cls, path: Path) -> Keys:
        """Read a PEM file with one or more PKCS#8 Ed25519 keys."""
        try:
            with path.open("rb") as file:
                raw = file.read(_MOST_KEY_FILE)
            found = [load_pem_private_key(block, password=None) for block in _KEY.findall(raw)]
        except (OSError, ValueError, TypeError) as error:
            raise KeysUnusable(f"the signing key file {path} cannot be read: {error}") from error
        if not all(isinstance(key, Ed25519PrivateKey) for key in found):
            raise KeysUnusable(f"the signing key file {path} holds a key that is not Ed25519")
        return cls([key for key in found if isinstance(key, Ed25519PrivateKey)])


class KeyFile:
    """Keys that follow their file: a Secret that changed is read again without a restart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = path.stat().st_mtime_ns if path.exists() else None
        self._keys = Keys.read(path)

    def keys(self) -> Keys:
        """Return the present keys; while a changed file cannot be read the last good ones hold."""
        try:
            seen = self._path.stat().st_mtime_ns
            if seen != self._seen:
                self._keys, self._seen = Keys.read(self._path), seen
        except (OSError, KeysUnusable):
            return self._keys
        return self._keys


class Grants:
    """Issues and verifies."""

    def __init__(self, keys: KeyFile | Keys, clock: Clock) -> None:
        self._file = keys
        self._clock = clock

    def issue(
        self,
        subject: str,
        *,
        transfer: str | None = None,
        catalogue: bool = False,
        access: tuple[GrantedAccess, ...] = (),
        seconds: int = LIFE_SECONDS,
    ) -> tuple[str, Claims]:
        """Return a signed grant and what it says; it lives ``LIFE_SECONDS`` at most."""
        now = self._now()
        claims = Claims(
            sub=subject,
            jti=secrets.token_hex(16),
            iat=now,
            exp=now + min(seconds, LIFE_SECONDS),
            transfer=transfer,
            catalogue=catalogue,
            access=access,
        )
        keys = self._keys()
        payload = {**msgspec.to_builtins(claims), "aud": AUDIENCE, "iss": ISSUER}
        token = jwt.encode(payload, keys.signing, algorithm=ALGORITHM, headers={"kid": keys.signing_id})
        return token, claims

    def verify(self, token: str) -> Claims:
        """Return what a grant of ours says, or raise GrantRefused."""
        if len(token) > MOST_GRANT_BYTES:
            raise GrantRefused("the grant is too long to be one of ours")
        try:
            key = self._keys().verifying.get(jwt.get_unverified_header(token).get("kid", ""))
            if key is None:
                raise GrantRefused("the grant is signed by a key that is not ours")
            payload = jwt.decode(
                token, key, algorithms=[ALGORITHM], audience=AUDIENCE, issuer=ISSUER, options=_OPTIONS
            )
            claims = msgspec.convert(payload, Claims)
        except (jwt.PyJWTError, msgspec.ValidationError, TypeError) as error:
            raise GrantRefused(f"the grant is not valid: {error}") from error
        self._check_times(claims)
        return claims

    def _check_times(self, claims: Claims) -> None:
        now = self._now()
        if now >= claims.exp + LEEWAY_SECONDS:
            raise GrantRefused("the grant has expired: exchange the token again at /token")
        if claims.iat > now + LEEWAY_SECONDS:
            raise GrantRefused("the grant is from the future: the clocks of the replicas differ")
        if claims.exp - claims.iat > LIFE_SECONDS:
            raise GrantRefused("the grant lives longer than any that is issued")

    def _now(self) -> int:
        return int(self._clock.now().timestamp())

    def _keys(self) -> Keys:
        return self._file if isinstance(self._file, Keys) else self._file.keys()


def key_id(key: Ed25519PrivateKey) -> str:
    """Return the id under which grants name their key."""
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()[:16]


def expiry(claims: Claims) -> datetime:
    """Return a grant's end for people."""
    return datetime.fromtimestamp(claims.exp, UTC)
