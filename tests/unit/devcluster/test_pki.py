from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509 import verification

from devcluster import pki
from devcluster.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    made = Settings(tmp_path_factory.mktemp("c"))
    pki.create_pki(made)
    return made


def _certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def _policy(cluster: Settings, authority: str) -> verification.PolicyBuilder:
    store = verification.Store([_certificate(cluster.pki / f"{authority}.crt")])
    later = datetime.now(UTC) + timedelta(days=365)
    return verification.PolicyBuilder().store(store).time(later)


@pytest.mark.parametrize("name", ["localhost", "kubernetes.default.svc"])
def test_the_api_server_is_trusted_under_its_names(cluster: Settings, name: str) -> None:
    verifier = _policy(cluster, "ca").build_server_verifier(x509.DNSName(name))
    assert verifier.verify(_certificate(cluster.pki / "apiserver.crt"), [])


def test_the_api_server_certificate_names_its_addresses(cluster: Settings) -> None:
    certificate = _certificate(cluster.pki / "apiserver.crt")
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    assert addresses == ["127.0.0.1", "10.200.0.1", "10.96.0.1"]


def test_the_kubelet_is_the_node_that_it_is(cluster: Settings) -> None:
    subject = _certificate(cluster.pki / "kubelet.crt").subject.rfc4514_string()
    assert subject == "CN=system:node:node-1,O=system:nodes"


def test_keys_are_private(cluster: Settings) -> None:
    keys = [*cluster.pki.glob("*.key"), cluster.kubeconfig, *cluster.configs.glob("*.kubeconfig")]
    assert len(keys) > 10
    assert {path.stat().st_mode & 0o777 for path in keys} == {0o600}


def test_what_exists_stays(cluster: Settings) -> None:
    before = {path: path.read_bytes() for path in cluster.pki.iterdir()}
    pki.create_pki(cluster)
    assert {path: path.read_bytes() for path in cluster.pki.iterdir()} == before


def test_a_certificate_lost_between_two_writes_is_issued_again(cluster: Settings) -> None:
    (cluster.pki / "proxy.crt").unlink()
    pki.create_pki(cluster)
    key = serialization.load_pem_private_key((cluster.pki / "proxy.key").read_bytes(), None)
    assert _certificate(cluster.pki / "proxy.crt").public_key() == key.public_key()


def test_the_kubeconfig_needs_no_other_file(cluster: Settings) -> None:
    config = json.loads(cluster.kubeconfig.read_text())
    entry = config["clusters"][0]["cluster"]
    assert entry["server"] == "https://10.200.0.1:16442"
    assert base64.b64decode(entry["certificate-authority-data"]) == (cluster.pki / "ca.crt").read_bytes()
    assert set(config["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}
