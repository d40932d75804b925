"""Uploads through a real ingress controller, by Ingress and by HTTPRoute: the guide's lines, slow bodies."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from devcluster.ingress import DOMAIN
from tests.kit import guide, helm
from tests.kit.entrance import GATEWAY
from tests.kit.journey import Counters, address, curl, order, phase, until
from tests.kit.models import gguf_bytes
from tools.installation import NAMESPACE, UPLOAD_PORT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.cluster import Platform
    from tests.kit.entrance import Entrance

pytestmark = [pytest.mark.root, pytest.mark.disruptive, pytest.mark.installs, pytest.mark.timeout(300)]

MIB = 1 << 20
SECRET = "uploads-certificate"
HOST, ROUTED_HOST = f"ai-models.{DOMAIN}", f"ai-models-routed.{DOMAIN}"


@pytest.fixture(scope="module", autouse=True)
def _public(platform: Platform, entrance: Entrance) -> Iterator[None]:
    """Have the module with a public address: an Ingress, and for another host what it makes for a Gateway."""
    entrance.certify(NAMESPACE, SECRET)
    ingress = {"enabled": "true", "className": "nginx", "tlsSecretName": SECRET}
    given = [f"uploadGateway.ingress.{name}={value}" for name, value in ingress.items()]
    platform.ensure(f"uploadGateway.publicURL=https://{HOST}", *given)
    until(lambda: entrance.problem(HOST) is None, 60, "the Ingress has its certificate")
    yield
    platform.ensure()
    # Whoever uploads next is to find the certificate for the address of the nodes.
    until(lambda: _shows(platform, entrance.address), 120, "the gateway has the certificate of before")


def _shows(platform: Platform, address: str) -> bool:
    trust = platform.target.get("-n", NAMESPACE, "configmap", "ai-models-trust")["data"]["ca.crt"]
    tls = ssl.create_default_context(cadata=trust)
    with suppress(OSError), socket.create_connection((address, UPLOAD_PORT), timeout=10) as raw:
        tls.wrap_socket(raw, server_hostname=address).close()
        return True
    return False


def test_the_guides_lines_run_through_the_ingress(
    platform: Platform, entrance: Entrance, tenant: str, tmp_path: Path
) -> None:
    order(platform, tenant, guide.MODEL)
    until(lambda: _told_url(platform, tenant).startswith(f"https://{HOST}/v1/upload/"), 60, "the address")
    url, _, authority = address(platform, tenant, guide.MODEL, tmp_path)
    entrance.curl_settings(tmp_path, HOST)
    data = gguf_bytes(size=24 * MIB)
    (tmp_path / "model.gguf").write_bytes(data)
    found = ("--resolve", f"{HOST}:443:{entrance.address}", "-o", "/dev/null", "-w", "%{http_code}")
    refused = curl(
        "-H", "Authorization: Bearer wrong", "-T", str(authority), *found, url, authority=authority
    )
    assert refused.stdout == "401"
    done = guide.run(platform, tenant, guide.FILE, tmp_path, authority)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
    phase(platform, tenant, guide.MODEL, "Ready")


@pytest.mark.parametrize("by", ["Ingress", "HTTPRoute"])
def test_a_body_arrives_while_its_end_is_held_back(
    platform: Platform, entrance: Entrance, tenant: str, tmp_path: Path, by: str
) -> None:
    host = HOST
    if by == "HTTPRoute":
        host = ROUTED_HOST
        _route(entrance)
    order(platform, tenant, "slow")
    url, token, _ = address(platform, tenant, "slow", tmp_path)
    data, counters = gguf_bytes(size=24 * MIB), Counters(platform)
    before = counters.received("upload") or 0
    with entrance.connection(host) as connection:
        connection.putrequest("PUT", urlsplit(url).path)
        connection.putheader("Authorization", f"Bearer {token}")
        connection.putheader("Content-Length", str(len(data)))
        connection.endheaders()
        connection.send(data[: 16 * MIB])
        until(lambda: (counters.received("upload") or 0) - before >= 8 * MIB, 60, "half of what was sent")
        connection.send(data[16 * MIB :])
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["sizeBytes"]) == (201, len(data))


def _told_url(platform: Platform, namespace: str) -> str:
    status = platform.target.get("-n", namespace, "model", guide.MODEL)["status"]
    secret = platform.target.get("-n", namespace, "secret", status["upload"]["secretName"])
    return base64.b64decode(secret["data"]["url"]).decode()


def _route(entrance: Entrance) -> None:
    """Make what the chart makes for a Gateway, but for a host of its own: both ways lead there at once."""
    gateway = {"publicURL": f"https://{ROUTED_HOST}", "httpRoute": {"parentRefs": [GATEWAY]}}
    objects = helm.render({"uploadGateway": gateway}, api_versions=(helm.ROUTES,))
    kinds = ("HTTPRoute", "BackendTLSPolicy")
    entrance.apply(*(helm.one(objects, kind, "ai-models-upload-gateway") for kind in kinds))
    until(lambda: _answers(entrance), 60, "the route leads to the gateway")


def _answers(entrance: Entrance) -> bool:
    with entrance.connection(ROUTED_HOST) as connection:
        connection.request("GET", "/v1/upload/unknown")
        return connection.getresponse().status == 401
