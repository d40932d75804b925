"""From a file to a Ready model with every part real but the kubelet, whose Pods' programs are run by hand.

The API server, the catalogue's controller, DMCR with grants, the gateway with the certificate that the
catalogue issues for it; and before the gateway a line that can break.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from aimodels.api.model import AnyModel, Model
from aimodels.api.reasons import Phase
from kubekit.resources import Secret
from tests.kit.accounts import Accounts
from tests.kit.breaking import Breaking
from tests.kit.catalog import running_catalog
from tests.kit.dmcr import Dmcr, with_grants
from tests.kit.eventually import eventually
from tests.kit.gatewayworld import Certificate, Gateway
from tests.kit.publication import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.kit.catalog import Cluster

_GATEWAY = "ai-models-upload-gateway"
_GATEWAY_POD = f"{_GATEWAY}-7d9f-x2x2x"
_ACCOUNTS = ("ai-models-controller", "ai-models-publication", _GATEWAY)


class WholePath:
    """A cluster with the catalogue, the registry, and the line to the gateway."""

    def __init__(
        self, cluster: Cluster, dmcr: Dmcr, line: Breaking, accounts: Accounts, folder: Path
    ) -> None:
        self.cluster = cluster
        self.dmcr = dmcr
        self.line = line
        self._accounts = accounts
        self._folder = folder

    async def waiting(self, name: str = "") -> AnyModel:
        """Return a new model that waits for its upload."""
        model = await self.cluster.make(Model, {"upload": {}}, name)
        return await self.cluster.phase(model, Phase.WAIT_FOR_UPLOAD)

    async def model(self, name: str, phase: Phase) -> AnyModel:
        """Wait until somebody has made a model and it has come so far."""

        async def found() -> AnyModel | None:
            return await self.cluster.client.find(Model, name, self.cluster.namespace)

        made: AnyModel = await eventually(found)
        return await self.cluster.phase(made, phase)

    async def worker(self, model: AnyModel, attempt: int = 1, *, url: str = "") -> Worker:
        """Return the attempt's program with the environment and the identity of the Job's Pod.

        ``url``: the registry's address for it, where that is not its own.
        """
        job = await self.cluster.job(model, attempt)
        pod = await self.cluster.pod(job)
        token = self._token("ai-models-publication", pod.metadata.name)
        given = {one["name"]: one["value"] for one in job.spec.template["spec"]["containers"][0]["env"]}
        given |= {"PUBLICATION_TOKEN_FILE": str(token), "PUBLICATION_CA_FILE": ""}
        del given["PUBLICATION_DMCR_URL"]
        folder = self._folder / model.metadata.name
        folder.mkdir(exist_ok=True)
        return Worker(url or self.dmcr.url, given.pop("PUBLICATION_REPOSITORY"), folder, attempt, **given)

    async def published(self, model: AnyModel, attempt: int = 1) -> None:
        """Run the attempt's program to its end, and report that to the cluster."""
        worker = await self.worker(model, attempt)
        code = await worker.run()
        if code:
            message = await asyncio.to_thread(worker.termination.read_text)
            await self.cluster.end_pod(await self.cluster.job(model, attempt), code, message)

    def _token(self, account: str, pod: str) -> Path:
        path = self._folder / f"token-{pod}"
        path.write_text(self._accounts.token(f"{self.cluster.namespace}/{account}", pod))
        return path


@asynccontextmanager
async def running(kubeconfig: Path, namespace: str, folder: Path) -> AsyncIterator[WholePath]:
    """Start everything in an empty namespace."""
    catalogue = f"{namespace}/ai-models-controller"
    async with AsyncExitStack() as stack:
        accounts = stack.enter_context(Accounts(kubeconfig, namespace))
        for name in _ACCOUNTS:
            accounts.account(name)
        accounts.pod(_GATEWAY_POD, f"{namespace}/{_GATEWAY}")
        tokens = (folder / "catalogue-token", folder / "gateway-token")
        tokens[0].write_text(accounts.token(catalogue))
        tokens[1].write_text(accounts.token(f"{namespace}/{_GATEWAY}", _GATEWAY_POD))
        settings = with_grants(kubeconfig, folder, catalogue)
        log, store = folder / "dmcr.log", f"file://{folder}/store"
        dmcr = await stack.enter_async_context(Dmcr(store, log, **settings))
        certificate = Certificate.below(folder)
        gateway = Gateway(dmcr.url, tokens[1], folder, 5.0, certificate)
        line = await stack.enter_async_context(Breaking(gateway.port))
        cluster = await stack.enter_async_context(
            running_catalog(
                kubeconfig,
                namespace,
                dmcr.url,
                dmcr_token_file=tokens[0],
                public_upload_url=f"https://localhost:{line.port}",
            )
        )
        await _write(certificate, cluster)
        await gateway.start()
        stack.push_async_callback(gateway.end, signal.SIGTERM)
        yield WholePath(cluster, dmcr, line, accounts, folder)


async def _write(certificate: Certificate, cluster: Cluster) -> None:
    """Put the gateway's certificate where its Pod would have it mounted."""

    async def issued() -> Secret | None:
        return await cluster.client.find(Secret, f"{_GATEWAY}-tls", cluster.namespace)

    secret: Secret = await eventually(issued)
    certificate.certificate.write_bytes(secret.data["tls.crt"])
    certificate.key.write_bytes(secret.data["tls.key"])
