"""How an order is reached, and by whom: Service, Ingress, NetworkPolicy.

What belongs here: these objects. What does not: which host an order gets, and where its certificate comes
from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiinference.api.reasons import ExposureType, HttpsMode
from aiinference.workload import gate, names, paths

if TYPE_CHECKING:
    from aiinference.classes.policy import Https
    from aiinference.workload.intent import Served, Settings

SERVICE_PORT, PORT_NAME = 80, "service-port"
_NGINX = "nginx.ingress.kubernetes.io"
_ISSUER = "cert-manager.io/cluster-issuer"


def service(intent: Served) -> dict[str, Any]:
    """Return the Service, by which everybody in the cluster reaches the gate."""
    port = {"name": PORT_NAME, "port": SERVICE_PORT, "targetPort": gate.API_PORT, "protocol": "TCP"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": names.metadata(intent.order),
        "spec": {"type": "ClusterIP", "selector": names.selector(intent.name), "ports": [port]},
    }


def ingress(intent: Served, settings: Settings) -> dict[str, Any] | None:
    """Return the Ingress of an External order; it knows the paths of the API and no other."""
    if is_local(intent):
        return None
    backend = {"service": {"name": intent.name, "port": {"name": PORT_NAME}}}
    served = [
        {"path": route.path, "pathType": "Exact", "backend": backend}
        for route in paths.of(intent.endpoint_type)
    ]
    https = intent.policy.exposure.https
    head = names.metadata(intent.order)
    head["annotations"] = _annotations(https, settings)
    spec: dict[str, Any] = {"rules": [{"host": intent.host, "http": {"paths": served}}]}
    if settings.ingress_class:
        spec["ingressClassName"] = settings.ingress_class
    if _certified(https):
        spec["tls"] = [{"hosts": [intent.host], "secretName": names.certificate(intent.name)}]
    return {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": head, "spec": spec}


def is_local(intent: Served) -> bool:
    """Tell whether an order is not reached from outside."""
    return intent.policy.exposure.type != ExposureType.EXTERNAL or not intent.host


def scheme(https: Https | None) -> str:
    """Return with what the address of an External order begins."""
    return "https" if _certified(https) or (https and https.mode == HttpsMode.ONLY_IN_URI) else "http"


def _certified(https: Https | None) -> bool:
    return https is not None and https.mode in {HttpsMode.CERT_MANAGER, HttpsMode.CUSTOM_CERTIFICATE}


def _annotations(https: Https | None, settings: Settings) -> dict[str, str]:
    """Tell nginx-style controllers not to bound, hold back or cut what goes through."""
    told = {
        "proxy-body-size": str(settings.body_limit_bytes),
        "proxy-buffering": "off",
        "proxy-request-buffering": "off",
        "proxy-http-version": "1.1",
        "proxy-read-timeout": str(settings.answer_seconds),
        "proxy-send-timeout": str(settings.answer_seconds),
        "ssl-redirect": "true" if _certified(https) else "false",
    }
    issued = {}
    if https and https.mode == HttpsMode.CERT_MANAGER and https.cluster_issuer_name:
        issued[_ISSUER] = https.cluster_issuer_name
    return {**issued, **{f"{_NGINX}/{name}": value for name, value in told.items()}}


def network_policy(intent: Served, settings: Settings) -> dict[str, Any]:
    """Return the policy: anybody may call the API, monitoring may read metrics, and nothing goes out.

    A runtime is given its model as files and executes what is in them: it has no business in the network.
    """
    ingress_rules: list[dict[str, Any]] = [{"ports": [_port(gate.API_PORT)]}]
    if settings.monitoring_namespaces:
        chosen = {
            "key": "kubernetes.io/metadata.name",
            "operator": "In",
            "values": list(settings.monitoring_namespaces),
        }
        peer = {"namespaceSelector": {"matchExpressions": [chosen]}}
        ingress_rules.append({"from": [peer], "ports": [_port(gate.METRICS_PORT)]})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": names.metadata(intent.order),
        "spec": {
            "podSelector": {"matchLabels": names.selector(intent.name)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress_rules,
        },
    }


def _port(number: int) -> dict[str, Any]:
    return {"port": number, "protocol": "TCP"}
