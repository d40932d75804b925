"""The way into a cluster of devcluster from outside: its ingress controller, and who comes through it."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from devcluster import ingress, settings
from devcluster.progress import Progress
from tests.kit.cluster import once

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tools.installation import Target

HTTPS = 443
GATEWAY = {"name": "public", "namespace": ingress.NAMESPACE, "sectionName": "websecure"}
GATEWAY_API = "gateway.networking.k8s.io/v1"


@dataclass(frozen=True)
class Entrance:
    """An address at which hosts of the domain are served, with certificates of one authority."""

    target: Target
    address: str
    authority: Path
    certificate: Path
    key: Path

    @contextmanager
    def connection(self, host: str) -> Iterator[http.client.HTTPSConnection]:
        """Connect as somebody does for whom the host's name resolves, and who trusts the authority."""
        tls = ssl.create_default_context(cafile=str(self.authority))
        raw = socket.create_connection((self.address, HTTPS), timeout=60)
        with closing(http.client.HTTPSConnection(host, timeout=60)) as made:
            made.sock = tls.wrap_socket(raw, server_hostname=host)
            yield made

    @contextmanager
    def posted(
        self, host: str, path: str, key: str, body: dict[str, Any]
    ) -> Iterator[http.client.HTTPResponse]:
        """Send an order's API a question."""
        with self.connection(host) as connection:
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            connection.request("POST", path, json.dumps(body), headers)
            yield connection.getresponse()

    def asked(self, host: str, path: str, key: str) -> int | None:
        """Return the status of the answer to an empty question; None while the host is not served."""
        with suppress(OSError), self.posted(host, path, key, {}) as answer:
            return answer.status
        return None

    def problem(self, host: str) -> str | None:
        """Return why the host's certificate is not right yet, or None."""
        try:
            with self.connection(host):
                return None
        except (OSError, ssl.SSLError) as error:
            return str(error)

    def curl_settings(self, home: Path, *hosts: str) -> None:
        """Have the curl of this home folder find the hosts here."""
        lines = [f'resolve = "{host}:{HTTPS}:{self.address}"\n' for host in hosts]
        (home / ".curlrc").write_text("".join(lines))

    def certify(self, namespace: str, name: str) -> None:
        """Make the Secret of a certificate for the domain's hosts, as cert-manager makes it."""
        files = {"tls.crt": self.certificate, "tls.key": self.key, "ca.crt": self.authority}
        data = {name: base64.b64encode(file.read_bytes()).decode() for name, file in files.items()}
        head = {"name": name, "namespace": namespace}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": head, "type": "kubernetes.io/tls"}
        self.apply(secret | {"data": data})

    def apply(self, *objects: dict[str, Any]) -> None:
        """Make objects."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.target.kubectl("apply", "-f", "-", stdin=json.dumps(items))


def route(namespace: str, name: str, host: str, service: str, port: int) -> dict[str, Any]:
    """Return an HTTPRoute on the entrance's Gateway that leads a whole host to a Service."""
    backend = {"name": service, "port": port}
    spec = {"parentRefs": [GATEWAY], "hostnames": [host], "rules": [{"backendRefs": [backend]}]}
    head = {"name": name, "namespace": namespace}
    return {"apiVersion": GATEWAY_API, "kind": "HTTPRoute", "metadata": head, "spec": spec}


@pytest.fixture(scope="session")
def entrance(devcluster: Target, tmp_path_factory: pytest.TempPathFactory) -> Entrance:
    """Return the entrance of this machine's cluster, which is given one when it has none."""
    directory = devcluster.directory
    if directory is None:
        pytest.skip("an ingress controller is brought to a cluster of devcluster only")
    cluster = settings.require(directory)

    def make() -> list[str]:
        ingress.install(directory, Progress())
        return []

    once(tmp_path_factory, "entrance", make)
    certificate, key = ingress.certificate(cluster)
    return Entrance(devcluster, cluster.node_ip, cluster.pki / "ca.crt", certificate, key)
