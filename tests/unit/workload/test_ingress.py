from __future__ import annotations

from typing import Any

import pytest

from aiinference.workload import network, paths
from aiinference.workload.intent import Settings
from tests.kit import orders

NGINX = "nginx.ingress.kubernetes.io/"


def _ingress(mode: str | None = "CertManager", **changes: Any) -> dict[str, Any]:
    wanted = orders.intent(policy=orders.policy(exposure=orders.exposure(mode=mode)), **changes)
    made = network.ingress(wanted, orders.SETTINGS)
    assert made is not None
    return made


@pytest.mark.parametrize("endpoint_type", ["Chat", "Embeddings", "Rerank", None])
def test_only_the_paths_of_the_api_are_there_and_to_the_letter(endpoint_type: str | None) -> None:
    (rule,) = _ingress(endpoint_type=endpoint_type)["spec"]["rules"]
    found = rule["http"]["paths"]
    assert [one["path"] for one in found] == [path.path for path in paths.of(endpoint_type)]
    assert {one["pathType"] for one in found} == {"Exact"}
    assert {one["backend"]["service"]["name"] for one in found} == {orders.NAME}
    assert rule["host"] == "support-llm.services.example.com"


def test_controllers_like_nginx_are_told_not_to_bound_hold_back_or_cut() -> None:
    told = _ingress()["metadata"]["annotations"]
    assert int(told[f"{NGINX}proxy-body-size"]) == orders.SETTINGS.body_limit_bytes
    assert {told[f"{NGINX}{name}"] for name in ("proxy-buffering", "proxy-request-buffering")} == {"off"}
    for name in ("proxy-read-timeout", "proxy-send-timeout"):
        assert int(told[f"{NGINX}{name}"]) == orders.SETTINGS.answer_seconds
    assert all(isinstance(value, str) for value in told.values())


@pytest.mark.parametrize(
    ("mode", "certified", "issuer", "scheme"),
    [
        ("CertManager", True, "issuer", "https"),
        ("CustomCertificate", True, None, "https"),
        ("OnlyInURI", False, None, "https"),
        ("Disabled", False, None, "http"),
        (None, False, None, "http"),
    ],
)
def test_where_the_certificate_comes_from(
    mode: str | None, *, certified: bool, issuer: str | None, scheme: str
) -> None:
    made = _ingress(mode)
    told = made["metadata"]["annotations"]
    wanted = [{"hosts": ["support-llm.services.example.com"], "secretName": "support-llm-tls"}]
    assert made["spec"].get("tls") == (wanted if certified else None)
    assert told.get("cert-manager.io/cluster-issuer") == issuer
    assert told[f"{NGINX}ssl-redirect"] == ("true" if certified else "false")
    assert network.scheme(orders.exposure(mode=mode).https) == scheme


def test_what_is_not_reached_from_outside_has_none() -> None:
    inside = orders.policy(exposure=orders.exposure("ClusterLocal", mode=None))
    assert network.ingress(orders.intent(policy=inside), orders.SETTINGS) is None
    assert network.ingress(orders.intent(host=None), orders.SETTINGS) is None


def test_the_class_of_ingresses_is_the_settings() -> None:
    assert "ingressClassName" not in _ingress()["spec"]
    made = network.ingress(orders.intent(), Settings(gate_image="gate", ingress_class="nginx"))
    assert made is not None
    assert made["spec"]["ingressClassName"] == "nginx"
