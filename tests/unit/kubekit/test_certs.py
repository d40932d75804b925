from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from kubekit import certs
from kubekit.certs import Authority, Pair, Policy

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
POLICY = Policy(ca_validity=30 * DAY, leaf_validity=9 * DAY)
NAMES = ("dmcr.d8-ai-models.svc", "dmcr", "10.0.0.7", "fd00::7")


@pytest.fixture(scope="module")
def ca() -> Pair:
    return certs.make_ca("test", NOW, POLICY.ca_validity)


def leaf(ca: Pair, names: tuple[str, ...] = NAMES, now: datetime = NOW) -> Pair:
    return certs.make_leaf(ca, names, now, POLICY.leaf_validity)


def test_a_leaf_is_for_its_names_and_for_as_long_as_the_policy_says(ca: Pair) -> None:
    made = leaf(ca)
    assert certs.names_of(made.certificate) == set(NAMES)
    assert certs.expires(made.certificate) == NOW + 9 * DAY


def test_a_leaf_is_renewed_when_two_thirds_are_over(ca: Pair) -> None:
    made = leaf(ca)
    assert not certs.leaf_is_due(made, ca, NAMES, NOW)
    assert not certs.leaf_is_due(made, ca, NAMES, NOW + 6 * DAY - timedelta(seconds=1))
    assert certs.leaf_is_due(made, ca, NAMES, NOW + 6 * DAY)


def test_a_leaf_is_renewed_when_it_does_not_fit_any_more(ca: Pair) -> None:
    made = leaf(ca)
    other = certs.make_ca("other", NOW, POLICY.ca_validity)
    for pair, authority, names in (
        (None, ca, NAMES),
        (made, ca, NAMES[1:]),
        (made, ca, (*NAMES, "more")),
        (made, other, NAMES),
        (Pair(b"rubbish", made.key), ca, NAMES),
        (Pair(made.certificate, b"rubbish"), ca, NAMES),
        (Pair(made.certificate, leaf(ca).key), ca, NAMES),
    ):
        assert certs.leaf_is_due(pair, authority, names, NOW)
    assert not certs.leaf_is_due(made, ca, reversed(NAMES), NOW)


def test_a_young_authority_is_left_alone() -> None:
    first = certs.next_authority(None, "test", NOW, POLICY)
    assert certs.next_authority(first, "test", NOW + 19 * DAY, POLICY) == first


def test_an_old_authority_is_followed_by_one_that_was_announced_before() -> None:
    first = certs.next_authority(None, "test", NOW, POLICY)
    announced = certs.next_authority(first, "test", NOW + 20 * DAY, POLICY)
    assert announced.current == first.current
    assert announced.successor
    assert announced.successor.certificate in announced.bundle

    soon = NOW + 20 * DAY + POLICY.announcement
    assert certs.next_authority(announced, "test", soon - timedelta(seconds=1), POLICY) == announced
    ruling = certs.next_authority(announced, "test", soon, POLICY)
    assert ruling == Authority(announced.successor, None, first.current.certificate)
    assert first.current.certificate in ruling.bundle

    forgotten = certs.next_authority(ruling, "test", NOW + 31 * DAY, POLICY)
    assert forgotten.predecessor is None
    assert first.current.certificate not in forgotten.bundle


def test_no_key_is_shown() -> None:
    assert "PRIVATE" not in repr(certs.make_ca("test", NOW, DAY))


@pytest.mark.parametrize(("host", "trusted"), [("dmcr", True), ("10.0.0.7", True), ("other", False)])
async def test_a_client_that_trusts_the_bundle_accepts_the_names(
    tmp_path: Path, host: str, *, trusted: bool
) -> None:
    now = datetime.now(UTC)
    authority = certs.next_authority(None, "test", now, POLICY)
    made = certs.make_leaf(authority.current, NAMES, now, POLICY.leaf_validity)
    (tmp_path / "crt").write_bytes(made.certificate)
    (tmp_path / "key").write_bytes(made.key)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    client = ssl.create_default_context(cadata=authority.bundle.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT

    assert await _shakes_hands(server, client, host) is trusted


async def _shakes_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> bool:
    """Try a TLS handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(10):
        waiting = 0
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                waiting += 1
            except ssl.SSLError:
                return False
        if not waiting:
            return True
        await asyncio.sleep(0)
    return False


def test_rubbish_is_named_as_such() -> None:
    with pytest.raises(certs.BadCertificate):
        certs.expires(b"rubbish")


@pytest.mark.filterwarnings("ignore")
def test_no_certificate_however_broken_raises_an_error(ca: Pair) -> None:
    made, told = leaf(ca), set()
    der = ssl.PEM_cert_to_DER_cert(made.certificate.decode())
    for position in range(len(der)):
        for change in (0x01, 0x02, 0x08, 0x80):
            broken = bytearray(der)
            broken[position] ^= change
            pair = Pair(ssl.DER_cert_to_PEM_cert(bytes(broken)).encode(), made.key)
            due = certs.leaf_is_due(pair, ca, NAMES, NOW)
            told.add((certs.is_certificate(pair.certificate), certs.sound(pair), due))
    assert {(False, False, True), (True, False, True), (True, True, True)} <= told
