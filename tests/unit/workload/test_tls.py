"""The copy of an administrator's certificate: for whom, what is in it, and what is said of a bad original."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from aiinference.api.reasons import OrderReason
from aiinference.classes.policy import Exposure, Https
from aiinference.workload import tls
from kubekit import certs
from kubekit.resources import Secret
from tests.kit import orders

if TYPE_CHECKING:
    from aiinference.workload.intent import Intent

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
PLACE = "d8-ai-inference"
CA = certs.make_ca("test", NOW, 30 * DAY)
LEAF = certs.make_leaf(CA, ("*.services.example.com",), NOW, 9 * DAY)


def wanting(kind: str = "External", mode: str = "CustomCertificate", **changes: Any) -> Intent:
    secret = changes.pop("secret_name", "wildcard")
    exposure = Exposure(kind, "Token", Https(mode, secret_name=secret))
    return orders.intent(policy=orders.policy(exposure=exposure), **changes)


def stored(**data: bytes) -> Secret:
    whole = {"tls.crt": LEAF.certificate, "tls.key": LEAF.key, "ca.crt": CA.certificate} | data
    return msgspec.structs.replace(Secret(), data=whole)


def test_only_external_orders_with_a_certificate_of_the_administrators_have_a_copy() -> None:
    assert tls.is_copied(wanting())
    assert not tls.is_copied(wanting("ClusterLocal", host=None))
    assert not tls.is_copied(wanting(host=None))
    for mode in ("CertManager", "OnlyInURI", "Disabled"):
        assert not tls.is_copied(wanting(mode=mode))


def test_a_pair_for_the_host_is_copied_and_nothing_else_of_the_secret() -> None:
    wanted, source = wanting(), stored()
    assert tls.fault(wanted, PLACE, source, NOW) is None
    made = tls.copy(wanted.order, source)
    assert made["type"] == "kubernetes.io/tls"
    assert made["metadata"]["name"] == "support-llm-tls"
    assert made["metadata"]["ownerReferences"][0]["name"] == "support-llm"
    copied = msgspec.convert(made, Secret, str_keys=True)
    assert copied.data == {"tls.crt": LEAF.certificate, "tls.key": LEAF.key}
    assert tls.is_current(copied, source, wanted.order)


def test_a_copy_follows_its_original_and_keeps_its_labels() -> None:
    wanted = wanting()
    copied = msgspec.convert(tls.copy(wanted.order, stored()), Secret, str_keys=True)
    renewed = certs.make_leaf(CA, ("*.services.example.com",), NOW, 9 * DAY)
    newer = stored(**{"tls.crt": renewed.certificate, "tls.key": renewed.key})
    assert not tls.is_current(copied, newer, wanted.order)
    bare = msgspec.structs.replace(copied, metadata=msgspec.structs.replace(copied.metadata, labels={}))
    assert not tls.is_current(bare, stored(), wanted.order)


@pytest.mark.parametrize(
    ("secret_name", "source", "reason", "words"),
    [
        (None, None, OrderReason.CERTIFICATE_MISSING, "no Secret is named for it"),
        (
            "wildcard",
            None,
            OrderReason.CERTIFICATE_MISSING,
            f"{PLACE}/wildcard .* does not exist.*other namespaces are not read",
        ),
        ("wildcard", Secret(), OrderReason.CERTIFICATE_MISSING, "lacks tls.crt or tls.key"),
        (
            "wildcard",
            stored(**{"tls.key": b"key"}),
            OrderReason.CERTIFICATE_INVALID,
            "cannot serve support-llm.services.example.com: tls.key is no private key",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_next_step(
    secret_name: str | None, source: Secret | None, reason: OrderReason, words: str
) -> None:
    found = tls.fault(wanting(secret_name=secret_name), PLACE, source, NOW)
    assert found is not None
    assert found.reason is reason
    assert re.search(words, found.message)
    assert "Ask the administrator to" in found.message


def test_a_certificate_that_ended_is_told() -> None:
    found = tls.fault(wanting(), PLACE, stored(), NOW + 10 * DAY)
    assert found is not None
    assert found.reason is OrderReason.CERTIFICATE_INVALID
    assert "it ended at" in found.message
