"""Grants: what is issued verifies, and nothing else does."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from aimodels.dmcr.grants import (
    LEEWAY_SECONDS,
    LIFE_SECONDS,
    Claims,
    GrantedAccess,
    GrantRefused,
    Grants,
    KeyFile,
    Keys,
    KeysUnusable,
    key_id,
)
from opskit.clock import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

KEY = Ed25519PrivateKey.generate()
OTHER = Ed25519PrivateKey.generate()
ACCESS = (GrantedAccess("models/team/x", ("pull", "push"), life="a" * 32),)


def pem(key: Any) -> bytes:
    raw: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return raw


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def grants(clock: ManualClock) -> Grants:
    return Grants(Keys([KEY]), clock)


def payload(clock: ManualClock, **changes: Any) -> dict[str, Any]:
    now = int(clock.now().timestamp())
    whole = {
        "sub": "system:serviceaccount:a:b",
        "jti": "1",
        "iat": now,
        "exp": now + 600,
        "aud": "dmcr",
        "iss": "dmcr",
        "transfer": "copy-1",
    }
    whole.update(changes)
    return {name: value for name, value in whole.items() if value is not None}


def signed(claims: dict[str, Any], key: Ed25519PrivateKey = KEY, kid: str | None = None) -> str:
    return jwt.encode(claims, key, algorithm="EdDSA", headers={"kid": key_id(KEY) if kid is None else kid})


def b64(value: Any) -> bytes:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def verifies(grants: Grants, token: str) -> bool:
    try:
        grants.verify(token)
    except GrantRefused:
        return False
    return True


def test_what_is_issued_verifies(grants: Grants) -> None:
    token, claims = grants.issue("system:serviceaccount:a:b", transfer="copy-1", access=ACCESS)
    assert grants.verify(token) == claims
    assert claims.exp - claims.iat == LIFE_SECONDS
    assert (claims.transfer, claims.access, claims.catalogue) == ("copy-1", ACCESS, False)


def test_no_grant_lives_longer_than_the_limit(grants: Grants) -> None:
    _, claims = grants.issue("x", seconds=10 * LIFE_SECONDS)
    assert claims.exp - claims.iat == LIFE_SECONDS


async def test_expiry_is_a_limit_with_leeway(grants: Grants, clock: ManualClock) -> None:
    token, _ = grants.issue("x")
    await clock.advance(LIFE_SECONDS + LEEWAY_SECONDS - 1)
    grants.verify(token)
    await clock.advance(1)
    with pytest.raises(GrantRefused, match="expired"):
        grants.verify(token)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"aud": "kubernetes"}, "Audience"),
        ({"aud": None}, "aud"),
        ({"iss": "somebody"}, "issuer"),
        ({"exp": None}, "exp"),
        ({"iat": None}, "iat"),
        ({"jti": None}, "jti"),
        ({"sub": None}, "sub"),
        ({"access": [{"repository": "x", "actions": ["own"]}]}, "own"),
        ({"catalogue": "yes"}, "bool"),
        ({"exp": "soon"}, "int"),
    ],
)
def test_claims_that_are_not_ours_are_refused(
    grants: Grants, clock: ManualClock, changes: dict[str, Any], why: str
) -> None:
    grants.verify(signed(payload(clock)))
    with pytest.raises(GrantRefused, match=why):
        grants.verify(signed(payload(clock, **changes)))


def test_times_of_another_clock_are_refused(grants: Grants, clock: ManualClock) -> None:
    now = int(clock.now().timestamp())
    with pytest.raises(GrantRefused, match="longer"):
        grants.verify(signed(payload(clock, exp=now + 86_400)))
    with pytest.raises(GrantRefused, match="future"):
        grants.verify(signed(payload(clock, iat=now + LEEWAY_SECONDS + 1, exp=now + 600)))
    grants.verify(signed(payload(clock, iat=now + LEEWAY_SECONDS, exp=now + 600)))


def test_foreign_keys_and_algorithms_are_refused(grants: Grants, clock: ManualClock) -> None:
    claims = payload(clock)
    public = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header = {"typ": "JWT", "kid": key_id(KEY)}
    unsigned = b".".join([b64(header | {"alg": "none"}), b64(claims), b""]).decode()
    body = b64(header | {"alg": "HS256"}) + b"." + b64(claims)
    confused = (body + b"." + b64(hmac.new(public, body, hashlib.sha256).digest())).decode()
    good = signed(claims)
    attacks = {
        "alg none": unsigned,
        "HS256 with the public key": confused,
        "another key under our id": signed(claims, OTHER),
        "another key under its own id": signed(claims, OTHER, key_id(OTHER)),
        "our key under another id": signed(claims, KEY, "nobody"),
        "signature cut": good[:-4],
        "payload exchanged": ".".join(
            [
                good.split(".")[0],
                b64(claims | {"catalogue": True}).decode(),
                good.split(".")[2],
            ]
        ),
        "not a token": "token",
        "empty": "",
        "too long": good + "A" * 20_000,
        "header is a list": "W10.W10.W10",
    }
    accepted = [name for name, token in attacks.items() if verifies(grants, token)]
    assert accepted == []


def test_refusals_never_show_the_grant(grants: Grants, clock: ManualClock) -> None:
    token = signed(payload(clock), OTHER)
    with pytest.raises(GrantRefused) as caught:
        grants.verify(token)
    assert token.split(".")[2] not in str(caught.value)


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: b64(raw).decode() + ".e30.AA"))
def test_any_text_is_refused_and_nothing_else_happens(text: str) -> None:
    with pytest.raises(GrantRefused):
        Grants(Keys([KEY]), ManualClock()).verify(text)


def test_rotation_keeps_old_grants_while_the_old_key_is_in_the_file(
    tmp_path: Path, clock: ManualClock
) -> None:
    path = tmp_path / "signing.pem"
    path.write_bytes(pem(KEY))
    grants = Grants(KeyFile(path), clock)
    old, _ = grants.issue("x")
    replace(path, pem(OTHER) + pem(KEY))
    new, _ = grants.issue("x")
    assert jwt.get_unverified_header(new)["kid"] == key_id(OTHER)
    grants.verify(old)
    replace(path, pem(OTHER))
    grants.verify(new)
    with pytest.raises(GrantRefused):
        grants.verify(old)
    replace(path, b"half written")
    grants.verify(new)


def replace(path: Path, body: bytes) -> None:
    """Write as the kubelet does, by a rename, with another time than before."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(body)
    before = path.stat().st_mtime_ns
    while fresh.stat().st_mtime_ns == before:
        time.sleep(0.001)
        fresh.touch()
    fresh.rename(path)


@pytest.mark.parametrize("body", [b"", b"nonsense", pem(ec.generate_private_key(ec.SECP256R1()))])
def test_key_file_without_a_usable_key_is_refused(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "signing.pem"
    path.write_bytes(body)
    with pytest.raises(KeysUnusable):
        Keys.read(path)
    with pytest.raises(KeysUnusable):
        Keys.read(tmp_path / "missing.pem")


def test_claims_are_what_the_wire_says() -> None:
    assert Claims(sub="s", jti="j", iat=0, exp=1).access == ()
