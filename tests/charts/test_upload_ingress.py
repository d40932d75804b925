"""How the upload gateway is reached through an ingress controller or a Gateway: read from the objects.

The controllers that the tests run pass bodies of any size however an Ingress is annotated; others do not.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import helm

NGINX = "nginx.ingress.kubernetes.io/"
HOST = "ai-models.example.com"
NAME = "ai-models-upload-gateway"
PARENT = {"name": "public", "namespace": "ingress", "sectionName": "websecure"}


def _ingress(values: dict[str, Any] | None = None, **given: Any) -> dict[str, Any]:
    gateway = {"publicURL": f"https://{HOST}:8443/", "ingress": {"enabled": True, **given}}
    return helm.one(helm.render({"uploadGateway": gateway, **(values or {})}), "Ingress", NAME)


def _told(made: dict[str, Any]) -> dict[str, str]:
    notes = made["metadata"]["annotations"]
    return {key.removeprefix(NGINX): value for key, value in notes.items() if key.startswith(NGINX)}


def _secret_of_the_controller(values: dict[str, Any]) -> str:
    template = helm.pod_templates(helm.render(values))["Deployment/ai-models-controller"]
    return helm.environment(template["spec"]["containers"][0])["AI_MODELS_PUBLIC_CA_SECRET"]


def test_without_the_setting_there_is_none() -> None:
    objects = helm.render({"uploadGateway": {"publicURL": f"https://{HOST}"}})
    assert {item["kind"] for item in objects} & {"Ingress", "HTTPRoute", "BackendTLSPolicy"} == set()


def test_controllers_like_nginx_neither_bound_nor_hold_back_nor_cut_an_upload() -> None:
    told = _told(_ingress())
    assert told["proxy-body-size"] == "0"
    assert (told["proxy-request-buffering"], told["proxy-buffering"]) == ("off", "off")
    assert told["proxy-http-version"] == "1.1", "a chunked body is buffered otherwise"
    # The gateway gives a connection up that has been silent for a minute; nothing before it is to be quicker.
    assert all(int(told[name]) > 60 for name in ("proxy-read-timeout", "proxy-send-timeout"))
    assert all(isinstance(value, str) for value in told.values())


def test_the_way_to_the_gateway_is_encrypted_and_checked() -> None:
    told = _told(_ingress())
    assert (told["backend-protocol"], told["proxy-ssl-verify"], told["ssl-redirect"]) == (
        "HTTPS",
        "on",
        "true",
    )
    assert told["proxy-ssl-secret"] == "d8-ai-models/ai-models-trust"
    assert told["proxy-ssl-name"] == f"{NAME}.d8-ai-models.svc"


def test_it_serves_uploads_and_nothing_else_of_the_host() -> None:
    (rule,) = _ingress()["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert (rule["host"], path["path"], path["pathType"]) == (HOST, "/v1/upload", "Prefix")
    assert path["backend"]["service"] == {"name": NAME, "port": {"name": "https"}}


@pytest.mark.parametrize(
    ("given", "secret", "issuer"),
    [
        ({}, None, None),
        ({"tlsSecretName": "own"}, "own", None),
        ({"clusterIssuerName": "letsencrypt"}, f"{NAME}-public-tls", "letsencrypt"),
        ({"tlsSecretName": "own", "clusterIssuerName": "letsencrypt"}, "own", "letsencrypt"),
    ],
)
def test_where_its_certificate_comes_from(
    given: dict[str, Any], secret: str | None, issuer: str | None
) -> None:
    made = _ingress(**given)
    (tls,) = made["spec"]["tls"]
    assert tls["hosts"] == [HOST]
    assert tls.get("secretName") == secret
    assert made["metadata"]["annotations"].get("cert-manager.io/cluster-issuer") == issuer


def test_users_are_told_the_authority_of_the_named_secret_or_of_the_ingress_s() -> None:
    gateway = {"publicURL": f"https://{HOST}", "ingress": {"enabled": True, "tlsSecretName": "own"}}
    assert _secret_of_the_controller({"uploadGateway": gateway}) == "own"
    assert _secret_of_the_controller({"uploadGateway": {**gateway, "caSecretName": "other"}}) == "other"
    assert not _secret_of_the_controller({})


def test_an_administrator_s_annotations_go_before_ours() -> None:
    made = _ingress(annotations={f"{NGINX}proxy-read-timeout": "60", "example.com/team": "ml"})
    assert _told(made)["proxy-read-timeout"] == "60"
    assert made["metadata"]["annotations"]["example.com/team"] == "ml"
    assert _told(made)["proxy-body-size"] == "0"


def test_the_class_is_the_setting_then_deckhouse_s_then_the_cluster_s() -> None:
    assert "ingressClassName" not in _ingress()["spec"]
    deckhouse = {"global": {"modules": {"ingressClass": "nginx"}}}
    assert _ingress(deckhouse)["spec"]["ingressClassName"] == "nginx"
    assert _ingress(deckhouse, className="traefik")["spec"]["ingressClassName"] == "traefik"


def test_under_deckhouse_the_host_is_the_module_s_of_the_public_domain() -> None:
    modules = {"modules": {"publicDomainTemplate": "%s.k8s.example.com"}}
    objects = helm.render({"global": modules, "aiModels": {"uploadGateway": {"ingress": {"enabled": True}}}})
    (rule,) = helm.one(objects, "Ingress", NAME)["spec"]["rules"]
    assert rule["host"] == "ai-models.k8s.example.com"
    template = helm.pod_templates(objects)["Deployment/ai-models-controller"]
    told = helm.environment(template["spec"]["containers"][0])["AI_MODELS_PUBLIC_UPLOAD_URL"]
    assert told == "https://ai-models.k8s.example.com"


def test_a_route_has_no_time_out_and_checks_the_gateway_s_certificate() -> None:
    gateway = {"publicURL": f"https://{HOST}", "httpRoute": {"parentRefs": [PARENT]}}
    objects = helm.render({"uploadGateway": gateway}, api_versions=(helm.ROUTES,))
    route = helm.one(objects, "HTTPRoute", NAME)["spec"]
    assert (route["parentRefs"], route["hostnames"]) == ([PARENT], [HOST])
    (rule,) = route["rules"]
    assert rule["timeouts"] == {"request": "0s"}
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/v1/upload"}}]
    service = helm.one(objects, "Service", NAME)["spec"]["ports"][0]
    assert rule["backendRefs"] == [{"name": NAME, "port": service["port"]}]
    policy = helm.one(objects, "BackendTLSPolicy", NAME)["spec"]
    assert policy["targetRefs"][0]["sectionName"] == service["name"]
    assert policy["validation"]["hostname"] == f"{NAME}.d8-ai-models.svc"
    assert policy["validation"]["caCertificateRefs"] == [
        {"group": "", "kind": "ConfigMap", "name": "ai-models-trust"}
    ]
