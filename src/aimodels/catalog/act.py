"""Carrying a plan's actions out, one after the other; each is repeatable.

What belongs here: the writes. What does not: which ones (``decide``).
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aimodels.api.model import FINALIZER
from aimodels.catalog import names, state
from aimodels.catalog.job import SERVICE_ACCOUNT, publication_job
from aimodels.catalog.observe import owned
from aimodels.catalog.verify import received_file
from kubekit.errors import AlreadyExists, NeedsUser
from kubekit.finalizer import add_finalizer, remove_finalizer
from kubekit.resources import Job, Role, Secret
from modelio.registry import TransferSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from aimodels.api.model import AnyModel
    from aimodels.catalog.job import JobSettings
    from aimodels.catalog.names import Key
    from aimodels.catalog.registry import Registry
    from aimodels.catalog.slots import Slots
    from aimodels.catalog.transfers import TransferBoard
    from kubekit.apply import Applier
    from kubekit.client import Client

GATEWAY = "ai-models-upload-gateway"
_GATEWAY_PORT = 8443
_UPLOAD_PATH = "/v1/upload/"
_TOKEN_BYTES = 32
_SERIAL_BYTES = 5


@dataclass(frozen=True)
class UploadSettings:
    """How users reach the gateway; ``trust`` is the bundle that its certificate is checked with."""

    public_url: str
    trust: Callable[[], bytes]


class Actor:
    """Carries actions out."""

    def __init__(
        self,
        client: Client,
        applier: Applier,
        registry: Registry,
        board: TransferBoard,
        slots: Slots,
        *,
        jobs: JobSettings,
        uploads: UploadSettings,
    ) -> None:
        self._client = client
        self._applier = applier
        self._registry = registry
        self._board = board
        self._slots = slots
        self._jobs = jobs
        self._uploads = uploads

    async def act(self, key: Key, model: AnyModel, action: state.Action) -> None:
        """Carry one action out."""
        match action:
            case state.AddFinalizer():
                await add_finalizer(self._client, model, FINALIZER)
            case state.RemoveFinalizer():
                await remove_finalizer(self._client, model, FINALIZER)
            case state.IssueUpload(transfer):
                await self._issue_upload(key, model, transfer)
            case state.WithdrawUpload():
                await self._withdraw_upload(key, model)
            case state.StartPublication(attempt):
                await self._start_publication(key, model, attempt)
            case state.DeleteJobs():
                await self._delete_jobs(model)
            case _:
                await self._at_registry(key, model, action)

    async def _at_registry(self, key: Key, model: AnyModel, action: state.Action) -> None:
        client, repository = await self._registry.client(), names.repository(key)
        match action:
            case state.RevokeTransfer(transfer):
                await self._revoke(transfer)
            case state.RevokeTransfers():
                for item in await client.list_transfers():
                    if names.uid_of(item.id) == model.metadata.uid:
                        await self._revoke(item.id)
            case state.RemoveTag(tag):
                await client.delete_manifest(repository, tag)
            case state.CloseRepository():
                await client.close_repository(repository)
            case _:
                raise TypeError(f"no such action: {action}")
        self._registry.answered()

    async def _revoke(self, transfer: str) -> None:
        await (await self._registry.client()).revoke_transfer(transfer)
        self._board.revoked(transfer)

    async def _issue_upload(self, key: Key, model: AnyModel, standing: str | None) -> None:
        namespace = names.upload_namespace(key, self._jobs.namespace)
        await self._refuse_foreign_secret(key, model, namespace)
        metadata = model.metadata
        transfer = standing or names.upload_transfer(
            metadata.uid, metadata.generation, secrets.token_hex(_SERIAL_BYTES)
        )
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        # The Secret comes first: a transfer that nobody has the token of would be open for nothing.
        await self._applier.apply(self._secret(key, model, namespace, transfer, token))
        await self._applier.apply(self._role(key, model, namespace))
        spec = TransferSpec(
            service_account=f"{self._jobs.namespace}/{GATEWAY}",
            repository=names.repository(key),
            purpose="upload",
            pod_prefix=GATEWAY,
            actions=("pull", "push"),
            token_hash=hashlib.sha256(token.encode()).hexdigest(),
        )
        await (await self._registry.client()).put_transfer(transfer, spec)
        self._registry.answered()
        self._board.put(transfer, "upload", spec.repository)

    async def _refuse_foreign_secret(self, key: Key, model: AnyModel, namespace: str) -> None:
        """Never write into somebody else's Secret; one of an earlier life of the model is deleted."""
        name = names.upload_secret(key)
        found = await self._client.find(Secret, name, namespace)
        if found is None or owned(found, model):
            return
        if names.TRANSFER_ANNOTATION not in found.metadata.annotations:
            raise NeedsUser(
                "SecretExists",
                f"Secret {namespace}/{name} is not ours, and its name is needed for the upload: delete it",
            )
        await self._applier.delete(Secret, namespace, name, uid=found.metadata.uid)

    def _secret(self, key: Key, model: AnyModel, namespace: str, transfer: str, token: str) -> dict[str, Any]:
        inside = f"https://{GATEWAY}.{self._jobs.namespace}.svc:{_GATEWAY_PORT}"
        outside = self._uploads.public_url.rstrip("/") or inside
        data = {
            "url": f"{outside}{_UPLOAD_PATH}{transfer}".encode(),
            "inClusterUrl": f"{inside}{_UPLOAD_PATH}{transfer}".encode(),
            "token": token.encode(),
        }
        trust = self._uploads.trust()
        if trust:
            data["ca.crt"] = trust
        manifest = _manifest("v1", "Secret", names.upload_secret(key), namespace, model)
        manifest["metadata"]["annotations"] = {names.TRANSFER_ANNOTATION: transfer}
        encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
        return manifest | {"type": "Opaque", "data": encoded}

    def _role(self, key: Key, model: AnyModel, namespace: str) -> dict[str, Any]:
        rule = {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": [names.upload_secret(key)],
            "verbs": ["get"],
        }
        manifest = _manifest("rbac.authorization.k8s.io/v1", "Role", names.upload_role(key), namespace, model)
        return manifest | {"rules": [rule]}

    async def _withdraw_upload(self, key: Key, model: AnyModel) -> None:
        namespace = names.upload_namespace(key, self._jobs.namespace)
        secret = await self._client.find(Secret, names.upload_secret(key), namespace)
        if secret is not None and owned(secret, model):
            await self._applier.delete(Secret, namespace, secret.metadata.name, uid=secret.metadata.uid)
        role = await self._client.find(Role, names.upload_role(key), namespace)
        if role is not None and any(one.uid == model.metadata.uid for one in role.metadata.owner_references):
            await self._applier.delete(Role, namespace, role.metadata.name, uid=role.metadata.uid)

    async def _start_publication(self, key: Key, model: AnyModel, attempt: int) -> None:
        metadata = model.metadata
        manifest = publication_job(self._jobs, key, metadata.uid, metadata.generation, attempt)
        job = manifest["metadata"]["name"]
        # Before anything is awaited: whoever counts the places meanwhile has to count this one.
        self._slots.begun(metadata.uid, job)
        try:
            await self._allow_publication(key, model, attempt)
            await self._client.create(manifest)
        except BaseException as error:
            # No informer will show a Job that was not made; one that is there already is shown, or goes.
            self._slots.settled(metadata.uid, job)
            if not isinstance(error, AlreadyExists):
                raise

    async def _allow_publication(self, key: Key, model: AnyModel, attempt: int) -> None:
        metadata = model.metadata
        client, repository = await self._registry.client(), names.repository(key)
        transfer = names.publication_transfer(metadata.uid, metadata.generation, attempt)
        spec = TransferSpec(
            service_account=f"{self._jobs.namespace}/{SERVICE_ACCOUNT}",
            repository=repository,
            purpose="publication",
            pod_prefix=names.publication_pods(metadata.uid),
            actions=("pull", "push"),
            expected_bytes=(await received_file(client, repository, names.UPLOAD_TAG)).size,
        )
        await client.put_transfer(transfer, spec)
        self._registry.answered()
        self._board.put(transfer, "publication", repository)

    async def _delete_jobs(self, model: AnyModel) -> None:
        selector = f"{names.UID_LABEL}={model.metadata.uid}"
        for job in await self._client.list(Job, self._jobs.namespace, label_selector=selector):
            await self._applier.delete(Job, self._jobs.namespace, job.metadata.name, uid=job.metadata.uid)


def _manifest(api_version: str, kind: str, name: str, namespace: str, model: AnyModel) -> dict[str, Any]:
    """Return the head of an object that goes with the model, even when we are gone."""
    owner = {
        "apiVersion": model.KIND.api_version,
        "kind": model.KIND.name,
        "name": model.metadata.name,
        "uid": model.metadata.uid,
    }
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(names.MODULE_LABEL),
            "ownerReferences": [owner],
        },
    }
