from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from cryptography import x509

from devcluster import ingress, pki
from devcluster.errors import ClusterError
from devcluster.progress import Progress
from devcluster.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    cluster = Settings(tmp_path_factory.mktemp("c"))
    pki.create_pki(cluster)
    return list(yaml.safe_load_all(ingress.render(cluster)))


def _one(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = [one for one in objects if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


def test_ports_are_those_of_the_node_s_address_alone(objects: list[dict[str, Any]]) -> None:
    pod = _one(objects, "Deployment", "traefik")["spec"]["template"]["spec"]
    ports = {port["name"]: port for port in pod["containers"][0]["ports"]}
    assert {(ports[name]["hostPort"], ports[name]["hostIP"]) for name in ("web", "websecure")} == {
        (80, "10.200.0.1"),
        (443, "10.200.0.1"),
    }
    listeners = _one(objects, "Gateway", "public")["spec"]["listeners"]
    assert {one["name"]: one["port"] for one in listeners} == {
        name: ports[name]["containerPort"] for name in ("web", "websecure")
    }


def test_a_request_may_take_as_long_as_it_needs(objects: list[dict[str, Any]]) -> None:
    (container,) = _one(objects, "Deployment", "traefik")["spec"]["template"]["spec"]["containers"]
    for entry in ("web", "websecure"):
        assert f"--entrypoints.{entry}.transport.respondingtimeouts.readtimeout=0" in container["args"]


def test_the_certificate_is_for_the_domain_s_hosts(objects: list[dict[str, Any]]) -> None:
    secret = _one(objects, "Secret", "wildcard")
    crt = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))
    names = crt.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["*.devcluster.test", "*.services.devcluster.test"]


def test_a_cluster_without_a_node_gets_none(tmp_path: Path) -> None:
    Settings(tmp_path, control_plane_only=True).save()
    with pytest.raises(ClusterError, match="no node that an ingress controller could run on"):
        ingress.install(tmp_path, Progress())
