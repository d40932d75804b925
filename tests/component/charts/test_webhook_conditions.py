"""Which writes the chart's webhook configuration asks about, decided by a real API server.

The configuration is the rendered one, pointed at a server in this process and held to the test's namespaces.
"""

from __future__ import annotations

import base64
import ssl
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from aiohttp import web
from aiohttp.test_utils import TestServer

from kubekit.client import Client, connect
from kubekit.resources import MutatingWebhookConfiguration, Namespace
from tests.kit import helm
from tests.kit.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.cluster

MODEL = {"ai.deckhouse.io/model": "gemma"}
CLUSTER_MODEL = {"ai.deckhouse.io/clustermodel": "gemma"}
MARKER = {"ai.deckhouse.io/model-delivery": "{}"}
SCOPE = "tests.example.com/scope"


class Asked:
    """What the API server asked about, by name."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.place = ""

    async def answer(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.names.append(review["request"]["name"])
        response = {"uid": review["request"]["uid"], "allowed": True}
        return web.json_response(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        )


@pytest.fixture
async def client(control_plane: Path) -> AsyncIterator[Client]:
    async with connect(control_plane) as client:
        yield client


@pytest.fixture
async def asked(client: Client) -> AsyncIterator[Asked]:
    found = Asked()
    async with _served(found) as (url, authority), _configured(client, url, authority) as place:
        found.place = place
        yield found


@asynccontextmanager
async def _served(asked: Asked) -> AsyncIterator[tuple[str, bytes]]:
    authority = trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    app = web.Application()
    app.router.add_post("/mutate-workload", asked.answer)
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=tls)
    try:
        yield str(server.make_url("/mutate-workload")), authority.cert_pem.bytes()
    finally:
        await server.close()


@asynccontextmanager
async def _configured(client: Client, url: str, authority: bytes) -> AsyncIterator[str]:
    rendered = helm.one(helm.render(), "MutatingWebhookConfiguration", "ai-models")
    name = f"ai-models-{uuid.uuid4().hex[:8]}"
    (webhook,) = rendered["webhooks"]
    webhook = webhook | {
        "clientConfig": {"url": url, "caBundle": base64.b64encode(authority).decode()},
        "namespaceSelector": {"matchLabels": {SCOPE: name}},
        "failurePolicy": "Fail",
    }
    await client.create(rendered | {"metadata": {"name": name}, "webhooks": [webhook]})
    places = [name, f"d8-{name}"]
    for place in places:
        metadata = {"name": place, "labels": {SCOPE: name}}
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    try:
        yield name
    finally:
        await client.delete(MutatingWebhookConfiguration, name)
        for place in places:
            await client.delete(Namespace, place)


def _workload(
    kind: str, name: str, place: str, own: dict[str, str], template: dict[str, str]
) -> dict[str, Any]:
    labels = {"app": name}
    pod = {"containers": [{"name": "x", "image": "x"}]}
    pod_template = {"metadata": {"labels": labels, "annotations": template}, "spec": pod}
    metadata = {"name": name, "namespace": place, "annotations": own}
    if kind == "CronJob":
        pod_template["spec"] = {**pod, "restartPolicy": "Never"}
        spec: dict[str, Any] = {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": pod_template}}}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": spec}
    spec = {"selector": {"matchLabels": labels}, "template": pod_template}
    if kind == "StatefulSet":
        spec["serviceName"] = name
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


async def test_only_what_names_a_model_or_was_delivered_is_asked_about(client: Client, asked: Asked) -> None:
    place = asked.place
    kinds = ("Deployment", "StatefulSet", "DaemonSet", "CronJob")

    async def is_asked() -> bool:
        await client.create(_workload("Deployment", "first", place, MODEL, {}), dry_run=True)
        return "first" in asked.names

    await eventually(is_asked)
    asked.names.clear()
    for kind in kinds:
        name = kind.lower()
        for suffix, own, template in (
            ("model", MODEL, {}),
            ("cluster", CLUSTER_MODEL, {}),
            ("marked", {}, MARKER),
            ("foreign", {"other.io/x": "y"}, {"other.io/x": "y"}),
            ("plain", {}, {}),
        ):
            await client.create(_workload(kind, f"{name}-{suffix}", place, own, template), dry_run=True)
        system = _workload(kind, f"{name}-system", f"d8-{place}", MODEL, {})
        await client.create(system, dry_run=True)
    wanted = {f"{kind.lower()}-{suffix}" for kind in kinds for suffix in ("model", "cluster", "marked")}
    assert set(asked.names) == wanted
