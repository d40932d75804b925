"""``python -m aiinference.processes.controller`` with exactly the rights that the chart gives it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp

from kubekit.client import Client, connect
from kubekit.resources import CLUSTER_ROLE, custom
from tests.kit import helm
from tests.kit.dmcr import free_port
from tests.kit.eventually import eventually
from tests.kit.inferenceapi import CHART
from tests.kit.modelsapi import user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kubekit.resources import Kind

NAME = "ai-inference-controller"
DOMAIN = "%s.services.example.com"
_BINDING = custom(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)
_GROUP = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_POLICIES = tuple(
    custom(_ADMISSION, "v1", kind, plural, namespaced=False)
    for kind, plural in (
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    )
)


class Controller:
    """The process, started and ended by a test."""

    def __init__(self, kubeconfig: Path, namespace: str, log: Path) -> None:
        self.namespace = namespace
        self.port = free_port()
        self.log = log
        self._environ = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "AI_INFERENCE_NAMESPACE": namespace,
            "AI_INFERENCE_HEALTH_PORT": str(self.port),
            "AI_INFERENCE_GATE_IMAGE": "gate:tests",
            "AI_INFERENCE_IMAGES": '{"llama": "llama:tests"}',
        }
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it and wait until it knows what there is."""
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "aiinference.processes.controller",
                env=self._environ,
                stderr=log,
                stdout=log,
            )
        await eventually(self._ready, within=90)

    async def _ready(self) -> bool:
        assert self.process is not None
        if self.process.returncode is not None:
            raise RuntimeError(self.log.read_text())
        async with aiohttp.ClientSession() as session:
            try:
                async with session.get(f"http://localhost:{self.port}/readyz") as answer:
                    return answer.status == 200
            except aiohttp.ClientError:
                return False

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it and return its exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        return await self.process.wait()


@asynccontextmanager
async def entitled(kubeconfig: Path, namespace: str, folder: Path) -> AsyncIterator[Path]:
    """Give a kubeconfig of an account that may do what the chart lets the controller do, and no more."""
    rendered = helm.render({"domainTemplate": DOMAIN}, chart=CHART)
    own = helm.one(rendered, "Role", NAME)["rules"]
    mine = await user(kubeconfig, namespace, NAME, own, folder)
    everywhere = [
        rule
        for name in ("d8:ai-inference:controller", "d8:ai-inference:controller:catalog")
        for rule in helm.one(rendered, "ClusterRole", name)["rules"]
    ]
    role = f"{namespace}:controller"
    async with connect(kubeconfig) as client:
        await _entitle(client, role, namespace, everywhere)
        bounds = await _bind(client, namespace, rendered)
        try:
            yield mine
        finally:
            for kind, name in [(_BINDING, role), (CLUSTER_ROLE, role), *bounds]:
                await client.request("DELETE", kind.path(name=name))


async def _bind(client: Client, namespace: str, rendered: list[helm.Manifest]) -> list[tuple[Kind, str]]:
    """Put the chart's policies about the controller into force for one of this namespace; return them."""
    made: list[tuple[Kind, str]] = []
    for kind in _POLICIES:
        for manifest in rendered:
            if manifest["kind"] != kind.name or not manifest["metadata"]["name"].startswith(NAME):
                continue
            mine = json.loads(json.dumps(manifest).replace("d8-ai-inference", namespace))
            name = mine["metadata"]["name"].replace(NAME, namespace, 1)
            mine["metadata"]["name"] = name
            if "policyName" in mine["spec"]:
                mine["spec"]["policyName"] = name
            await client.create(mine, kind=kind)
            made.insert(0, (kind, name))
    return made


async def _entitle(client: Client, role: str, namespace: str, rules: list[helm.Manifest]) -> None:
    metadata = {"name": role}
    api = f"{_GROUP}/v1"
    await client.create(
        {"apiVersion": api, "kind": "ClusterRole", "metadata": metadata, "rules": rules}, kind=CLUSTER_ROLE
    )
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
    reference = {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role}
    binding = {"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": metadata}
    await client.create(binding | {"roleRef": reference, "subjects": [subject]}, kind=_BINDING)
