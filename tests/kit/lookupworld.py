"""``ai-models-api`` as a process with the chart's rights, models it knows, and accounts that ask it."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import aiohttp
import trustme

from aimodels.api.model import API_VERSION
from aimodels.lookup.routes import PATH
from kubekit.client import Client, connect
from kubekit.resources import custom
from tests.kit import helm
from tests.kit.accounts import Accounts
from tests.kit.controlplane import fresh_namespace
from tests.kit.dmcr import free_port
from tests.kit.eventually import eventually
from tests.kit.modelsapi import install_definitions, user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from aimodels.api.model import AnyModel

AUDIENCE = "ai-models"
TRUST = "ai-models-trust"
DIGEST = "sha256:" + "ab" * 32
RESOLVED: dict[str, Any] = {
    "format": "GGUF",
    "family": "qwen2",
    "architecture": "qwen2",
    "parameterCount": 494032768,
    "quantization": "Q4_K_M",
    "contextWindowTokens": 32768,
    "supportedEndpointTypes": ["Chat", "TextGeneration"],
    "facts": {"layers": 24, "hiddenSize": 896, "tiedEmbeddings": True, "dtypeBytes": {"Q4_K": 7}},
}
_GET_MODELS = {"apiGroups": ["ai.deckhouse.io"], "resources": ["models", "clustermodels"], "verbs": ["get"]}
_KINDS = {
    name: custom("rbac.authorization.k8s.io", "v1", name, f"{name.lower()}s", namespaced=namespaced)
    for name, namespaced in [
        ("ClusterRole", False),
        ("ClusterRoleBinding", False),
        ("Role", True),
        ("RoleBinding", True),
    ]
}


@dataclass(frozen=True)
class Certificate:
    """Files of a server's certificate, and who vouches for it."""

    authority: trustme.CA
    certificate: Path
    key: Path

    @classmethod
    def made(
        cls,
        folder: Path,
        name: str,
        *hosts: str,
        authority: trustme.CA | None = None,
        not_after: datetime | None = None,
    ) -> Certificate:
        authority = authority or trustme.CA()
        leaf = authority.issue_cert(*(hosts or ("localhost", "127.0.0.1")), not_after=not_after)
        one = cls(authority, folder / f"{name}.crt", folder / f"{name}.key")
        leaf.private_key_pem.write_to_path(one.key)
        leaf.cert_chain_pems[0].write_to_path(one.certificate)
        return one

    def server(self) -> ssl.SSLContext:
        """Return the context of a server that shows it."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, self.key)
        return context

    def client(self) -> ssl.SSLContext:
        """Return the context of a client that trusts it."""
        return ssl.create_default_context(cadata=self.bundle)

    @property
    def bundle(self) -> str:
        """Return the authority's own certificate as text."""
        return self.authority.cert_pem.bytes().decode()


class Api:
    """``python -m aimodels.processes.api``."""

    def __init__(self, kubeconfig: Path, namespace: str, certificate: Certificate, log: Path) -> None:
        self.port = free_port()
        self.log = log
        self._client = certificate.client()
        self._environ = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "AI_MODELS_NAMESPACE": namespace,
            "AI_MODELS_PORT": str(self.port),
            "AI_MODELS_TLS_CERT_FILE": str(certificate.certificate),
            "AI_MODELS_TLS_KEY_FILE": str(certificate.key),
        }
        self.process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    async def start(self) -> None:
        """Start it and wait until it knows the models."""
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "aimodels.processes.api", env=self._environ, stderr=log
            )
        await eventually(self._ready)

    async def _ready(self) -> bool:
        assert self.process is not None
        if self.process.returncode is not None:
            raise RuntimeError(self.log.read_text())
        async with aiohttp.ClientSession() as session:
            try:
                async with session.get(f"{self.url}/readyz", ssl=self._client) as answer:
                    return answer.status == 200
            except aiohttp.ClientError:
                return False

    async def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        process, self.process = self.process, None
        if process is not None and process.returncode is None:
            process.send_signal(number)
            await process.wait()

    async def ask(self, token: str, **parameters: str) -> tuple[int, dict[str, Any]]:
        """Send one lookup and return status and body."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with (
            aiohttp.ClientSession() as session,
            session.get(self.url + PATH, params=parameters, headers=headers, ssl=self._client) as answer,
        ):
            return answer.status, await answer.json()

    def lines(self) -> str:
        """Return what the process has logged."""
        return self.log.read_text()


@dataclass
class World:
    """One installation: module and user namespace, the api, and who may ask it."""

    kubeconfig: Path
    client: Client
    accounts: Accounts
    module_namespace: str
    namespace: str
    certificate: Certificate
    api: Api
    #: of an account that may get every model, as the inference controller's may
    controller_kubeconfig: Path
    folder: Path

    def token(self, account: str, audience: str = AUDIENCE) -> str:
        return self.accounts.token(f"{self.module_namespace}/{account}", audience=audience)

    async def model(self, kind: type[AnyModel], name: str, *, ready: bool = True, **resolved: Any) -> None:
        """Make a model, with the status of one that is ready unless told otherwise."""
        place = {"namespace": self.namespace} if kind.KIND.namespaced else {}
        await self.client.create(
            {
                "apiVersion": API_VERSION,
                "kind": kind.KIND.name,
                "metadata": {"name": name} | place,
                "spec": {"source": {"upload": {}}},
            }
        )
        artifact = {"digest": DIGEST, "sizeBytes": 253_000_000}
        status: dict[str, Any] = (
            {"phase": "Ready", "artifact": artifact, "resolved": RESOLVED | resolved}
            if ready
            else {"phase": "WaitForUpload"}
        )
        said = (
            ("True", "Ready", "Stored.") if ready else ("False", "WaitingForUserUpload", "Upload the file.")
        )
        status |= {"observedSource": {"type": "upload"}, "conditions": [_condition(*said)]}
        await self.client.patch(
            kind, name, {"status": status}, namespace=place.get("namespace"), subresource="status"
        )

    async def known(self, **parameters: str) -> tuple[int, dict[str, Any]]:
        """Ask as the controller until the api has heard of the model."""

        async def look() -> tuple[int, dict[str, Any]] | None:
            status, body = await self.api.ask(self.token("inference"), **parameters)
            return None if status == 404 or "not looked at" in body.get("message", "") else (status, body)

        found = await eventually(look)
        assert found is not None
        return found

    async def trust(self, bundle: str) -> None:
        """Tell which certificates the installation vouches for."""
        await self.client.patch(
            custom("", "v1", "ConfigMap", "configmaps"),
            TRUST,
            {"data": {"ca.crt": bundle}},
            namespace=self.module_namespace,
        )


def _condition(status: str, reason: str, message: str) -> dict[str, Any]:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    said = {"status": status, "reason": reason, "message": message}
    return {"type": "Ready", "lastTransitionTime": since} | said


@asynccontextmanager
async def running(kubeconfig: Path, folder: Path, module: str = "") -> AsyncIterator[World]:
    """Give a world with its api at work; what it has made outside its namespaces goes with it.

    ``module`` is the name of the module's namespace where somebody looks for it there.
    """
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(connect(kubeconfig))
        await install_definitions(client)
        module_namespace = stack.enter_context(fresh_namespace(kubeconfig, module))
        namespace = stack.enter_context(fresh_namespace(kubeconfig))
        accounts = stack.enter_context(closing(Accounts(kubeconfig, module_namespace)))
        api_config = await user(kubeconfig, module_namespace, "ai-models-api", [], folder)
        controller = await user(kubeconfig, module_namespace, "inference", [], folder)
        await user(kubeconfig, module_namespace, "stranger", [], folder)
        await _grant(client, stack, module_namespace)
        certificate = Certificate.made(folder, "api")
        await client.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": TRUST, "namespace": module_namespace},
                "data": {"ca.crt": certificate.bundle},
            }
        )
        api = Api(api_config, module_namespace, certificate, folder / "api.log")
        stack.push_async_callback(api.end)
        await api.start()
        yield World(
            kubeconfig, client, accounts, module_namespace, namespace, certificate, api, controller, folder
        )


async def _grant(client: Client, stack: AsyncExitStack, namespace: str) -> None:
    """Give the api and all ServiceAccounts what the chart gives them, and the controller its models."""
    chart = {(one["kind"], one["metadata"]["name"]): one for one in helm.render()}
    await _rule(client, stack, namespace, "ai-models-api", chart["ClusterRole", "d8:ai-models:api"]["rules"])
    await _rule(client, stack, namespace, "inference", [_GET_MODELS])
    for kind in ("Role", "RoleBinding"):
        manifest = chart[kind, "ai-models-trust-reader"]
        metadata = {"name": manifest["metadata"]["name"], "namespace": namespace}
        await client.create(manifest | {"metadata": metadata}, kind=_KINDS[kind])


async def _rule(
    client: Client, stack: AsyncExitStack, namespace: str, account: str, rules: list[dict[str, Any]]
) -> None:
    name = f"{namespace}-{account}"
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subjects = [{"kind": "ServiceAccount", "namespace": namespace, "name": account}]
    for manifest in (
        head | {"kind": "ClusterRole", "rules": rules},
        head | {"kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects},
    ):
        kind = _KINDS[str(manifest["kind"])]
        await client.create(manifest, kind=kind)
        stack.push_async_callback(client.delete, kind, name)
