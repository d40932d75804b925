"""ServiceAccounts, Pods and their projected tokens on a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from lightkube import Client, KubeConfig
from lightkube.models.authentication_v1 import BoundObjectReference, TokenRequestSpec
from lightkube.models.core_v1 import Container, PodSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Pod, ServiceAccount, ServiceAccountToken

if TYPE_CHECKING:
    from pathlib import Path


class Accounts:
    """Makes tokens exactly as the kubelet asks for them: bound to a Pod, for one audience."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._client = Client(config=KubeConfig.from_file(kubeconfig))
        self.namespace = namespace

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def account(self, name: str) -> str:
        """Create a ServiceAccount and return it as ``namespace/name``."""
        self._client.create(ServiceAccount(metadata=ObjectMeta(name=name, namespace=self.namespace)))
        return f"{self.namespace}/{name}"

    def pod(self, name: str, account: str) -> None:
        spec = PodSpec(
            containers=[Container(name="main", image="example.invalid/none")],
            serviceAccountName=account.rpartition("/")[2],
        )
        self._client.create(Pod(metadata=ObjectMeta(name=name, namespace=self.namespace), spec=spec))

    def delete_pod(self, name: str) -> None:
        self._client.delete(Pod, name, namespace=self.namespace, grace_period=0)

    def token(self, account: str, pod: str | None = None, audience: str = "dmcr") -> str:
        name = account.rpartition("/")[2]
        bound = None
        if pod is not None:
            uid = self._client.get(Pod, pod, namespace=self.namespace).metadata
            bound = BoundObjectReference(
                apiVersion="v1", kind="Pod", name=pod, uid=uid.uid if uid is not None else None
            )
        request = ServiceAccountToken(
            metadata=ObjectMeta(),
            spec=TokenRequestSpec(audiences=[audience], boundObjectRef=bound, expirationSeconds=600),
        )
        made = self._client.create(request, name, namespace=self.namespace)
        assert made.status is not None
        return str(made.status.token)
