"""``python -m aiinference.processes.planner`` with exactly the rights that the chart gives it."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp

from aiinference.planner.client import PlannerSettings
from kubekit.client import Client, connect
from kubekit.resources import CLUSTER_ROLE, custom
from tests.kit import helm
from tests.kit.accounts import Accounts
from tests.kit.controlplane import fresh_namespace
from tests.kit.dmcr import free_port
from tests.kit.eventually import eventually
from tests.kit.inferenceapi import CHART
from tests.kit.launchplans import IMAGES
from tests.kit.lookupworld import Certificate
from tests.kit.modelsapi import user

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator
    from pathlib import Path

NAME = "ai-inference-planner"
CONTROLLER = "ai-inference-controller"
AUDIENCE = NAME
TRUST = "ai-inference-trust"
_GROUP = "rbac.authorization.k8s.io"
_BINDING = custom(_GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)


@dataclass(frozen=True)
class Running:
    """The process, and who may ask it."""

    client: Client
    accounts: Accounts
    settings: PlannerSettings
    log: Path
    #: of a client that has to do without the module's ConfigMap
    trusted: ssl.SSLContext

    def show(self, account: str, audience: str = AUDIENCE) -> None:
        """Have the next question come with a token of this account."""
        token = self.accounts.token(f"{self.accounts.namespace}/{account}", audience=audience)
        self.settings.token_file.write_text(token)


@asynccontextmanager
async def running(
    kubeconfig: Path, folder: Path, *, port: int | None = None, certificate: Certificate | None = None
) -> AsyncIterator[Running]:
    """Give the process in a namespace of its own, with the controller's account beside it."""
    certificate = certificate or Certificate.made(folder, NAME)
    with fresh_namespace(kubeconfig) as namespace, Accounts(kubeconfig, namespace) as accounts:
        async with connect(kubeconfig) as client:
            mine = await user(kubeconfig, namespace, NAME, [], folder)
            await _entitle(client, namespace)
            for account in (CONTROLLER, "stranger"):
                accounts.account(account)
            trust = {"ca.crt": certificate.bundle}
            metadata = {"name": TRUST, "namespace": namespace}
            await client.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": trust}
            )
            port, log = port or free_port(), folder / "planner.log"
            settings = PlannerSettings(f"https://localhost:{port}", folder / "token", 30, namespace, TRUST)
            process = await _started(mine, namespace, port, certificate, log)
            try:
                await eventually(lambda: _ready(process, port, certificate))
                yield Running(client, accounts, settings, log, certificate.client())
            finally:
                if process.returncode is None:
                    process.terminate()
                await process.wait()
                for kind in (_BINDING, CLUSTER_ROLE):
                    await client.request("DELETE", kind.path(name=f"{namespace}:planner"))


async def _started(
    kubeconfig: Path, namespace: str, port: int, certificate: Certificate, log: Path
) -> asyncio.subprocess.Process:
    environ = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "AI_INFERENCE_IMAGES": f'{{"llama": "{IMAGES["llama"]}"}}',
        "AI_INFERENCE_PORT": str(port),
        "AI_INFERENCE_TLS_CERT_FILE": str(certificate.certificate),
        "AI_INFERENCE_TLS_KEY_FILE": str(certificate.key),
        "AI_INFERENCE_CALLERS": f"{namespace}/{CONTROLLER}",
    }
    with log.open("wb") as output:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "aiinference.processes.planner", env=environ, stdout=output, stderr=output
        )


async def _ready(process: asyncio.subprocess.Process, port: int, certificate: Certificate) -> bool:
    assert process.returncode is None, "the planner ended, see its log"
    async with aiohttp.ClientSession() as session:
        try:
            url = f"https://localhost:{port}/readyz"
            async with session.get(url, ssl=certificate.client()) as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False


async def _entitle(client: Client, namespace: str) -> None:
    rules = helm.one(helm.render(chart=CHART), "ClusterRole", "d8:ai-inference:planner")["rules"]
    metadata, api = {"name": f"{namespace}:planner"}, f"{_GROUP}/v1"
    await client.create(
        {"apiVersion": api, "kind": "ClusterRole", "metadata": metadata, "rules": rules}, kind=CLUSTER_ROLE
    )
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
    reference = {"apiGroup": _GROUP, "kind": "ClusterRole", "name": metadata["name"]}
    binding = {"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": metadata}
    await client.create(binding | {"roleRef": reference, "subjects": [subject]}, kind=_BINDING)
