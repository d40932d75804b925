"""Certificates that somebody else has made: which can serve a host, and what is said of the others."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from kubekit import certcheck, certs
from kubekit.certcheck import fault

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
HOST = "support-llm.services.example.com"
CA = certs.make_ca("test", NOW, 30 * DAY)


def made(*names: str, at: datetime = NOW) -> certs.Pair:
    return certs.make_leaf(CA, names, at, 9 * DAY)


@pytest.mark.parametrize("name", [HOST, HOST.upper(), "*.services.example.com"])
def test_a_pair_for_the_host_serves_it(name: str) -> None:
    pair = made("other.example.com", name)
    assert fault(pair.certificate, pair.key, HOST, NOW) is None
    assert fault(pair.certificate + CA.certificate, pair.key, HOST, NOW) is None, "with its chain"


@pytest.mark.parametrize(
    "name", ["services.example.com", "*.example.com", "*.support-llm.services.example.com", "llm.example.com"]
)
def test_a_pair_for_others_does_not(name: str) -> None:
    pair = made(name)
    assert fault(pair.certificate, pair.key, HOST, NOW) == f"it is for {name}, not for {HOST}"


def test_a_key_is_read_once_however_often_the_pair_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    load = serialization.load_pem_private_key

    def counted(data: bytes, password: bytes | None) -> object:
        read.append(data)
        return load(data, password)

    pair, other = made(HOST), made(HOST)
    monkeypatch.setattr(serialization, "load_pem_private_key", counted)
    wrong = "tls.key is not the key of the certificate in tls.crt"
    for _ in range(3):
        assert fault(pair.certificate, pair.key, HOST, NOW) is None
        assert fault(pair.certificate, other.key, HOST, NOW) == wrong, "another key is another pair"
        assert (fault(pair.certificate, b"text", HOST, NOW) or "").startswith("tls.key is no private key")
        assert "it ended at" in (fault(pair.certificate, pair.key, HOST, NOW + 10 * DAY) or "")
        assert "not for llm.example.com" in (fault(pair.certificate, pair.key, "llm.example.com", NOW) or "")
    assert read == [pair.key, other.key, b"text"]


def test_no_more_pairs_are_remembered_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[tuple[bytes, bytes], str | None] = {}
    monkeypatch.setattr(certcheck, "_known", known)
    monkeypatch.setattr(certcheck, "_KNOWN", 2)
    pair = made(HOST)
    for number in range(4):
        assert fault(pair.certificate, str(number).encode(), HOST, NOW)
        assert len(known) <= 2
    assert fault(pair.certificate, pair.key, HOST, NOW) is None
    assert None in known.values(), "the last one is among them"


def test_many_names_are_not_all_listed() -> None:
    pair = made(*(f"n{number}.example.com" for number in range(7)))
    assert "n4.example.com and 2 more, not for" in (fault(pair.certificate, pair.key, HOST, NOW) or "")


def test_a_certificate_without_names_is_for_no_host() -> None:
    assert fault(CA.certificate, CA.key, HOST, NOW) == f"it is for no host, not for {HOST}"


def test_a_pair_serves_while_it_is_valid() -> None:
    pair = made(HOST)
    assert "it ended at 2026-01-10" in (fault(pair.certificate, pair.key, HOST, NOW + 10 * DAY) or "")
    assert "it begins at 2025-12-31" in (fault(pair.certificate, pair.key, HOST, NOW - DAY) or "")


def test_parts_that_do_not_belong_together_are_told() -> None:
    pair, other = made(HOST), made(HOST)
    assert fault(pair.certificate, other.key, HOST, NOW) == (
        "tls.key is not the key of the certificate in tls.crt"
    )
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    written = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"word"),
    )
    assert "locked by a password" in (fault(pair.certificate, written, HOST, NOW) or "")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"text",
        b"\xff\x00",
        b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n",
        b"-----BEGIN PRIVATE KEY-----\n!!\n-----END PRIVATE KEY-----\n",
    ],
)
def test_what_is_no_pem_is_told_and_not_quoted(text: bytes) -> None:
    pair = made(HOST)
    assert fault(text, pair.key, HOST, NOW) == "tls.crt is no certificate in PEM"
    assert (fault(pair.certificate, text, HOST, NOW) or "").startswith("tls.key is no private key in PEM")


def test_a_key_of_a_kind_that_nobody_knows_is_told() -> None:
    pair = made(HOST)
    public = x509.load_pem_x509_certificate(pair.certificate).public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    known, unknown = bytes.fromhex("06072a8648ce3d0201"), bytes.fromhex("06072a8648ce3d0209")
    der = ssl.PEM_cert_to_DER_cert(pair.certificate.decode())
    odd = ssl.DER_cert_to_PEM_cert(der.replace(known, unknown)).encode()
    assert fault(odd, pair.key, HOST, NOW) == "tls.crt is of a kind that cannot be read"


@pytest.mark.filterwarnings("ignore")
def test_no_certificate_however_broken_raises_an_error() -> None:
    pair = made(HOST)
    der = ssl.PEM_cert_to_DER_cert(pair.certificate.decode())
    told = set()
    for position in range(len(der)):
        for change in (0x01, 0x02, 0x08, 0x80):
            broken = bytearray(der)
            broken[position] ^= change
            text = ssl.DER_cert_to_PEM_cert(bytes(broken)).encode()
            told.add(fault(text, pair.key, HOST, NOW))
    assert {None, "tls.crt is of a kind that cannot be read", "tls.crt is no certificate in PEM"} <= told
