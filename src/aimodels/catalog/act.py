"""Carrying a plan's actions out, one after the other; each is repeatable.

What belongs here: the writes. What does not: which ones (``decide``).
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

from aimodels.api.model import FINALIZER
from aimodels.catalog import names, state
from aimodels.catalog.handout import GATEWAY, TOKEN
from aimodels.catalog.job import SERVICE_ACCOUNT, publication_job
from aimodels.catalog.observe import owned
from aimodels.catalog.uploads import IDLE
from aimodels.catalog.verify import received_file
from kubekit.errors import AlreadyExists, Forbidden, Invalid, NeedsUser
from kubekit.finalizer import add_finalizer, remove_finalizer
from kubekit.resources import Job, Role, Secret
from modelio.registry import TransferSpec

if TYPE_CHECKING:
    from aimodels.api.model import AnyModel
    from aimodels.catalog.handout import Handout
    from aimodels.catalog.names import Key
    from aimodels.catalog.registry import Registry
    from aimodels.catalog.slots import Slots
    from aimodels.catalog.transfers import TransferBoard
    from aimodels.jobs.manifest import JobSettings
    from kubekit.apply import Applier
    from kubekit.client import Client

#: what we would end after so long without a byte ends by itself while we are away
_IDLE_SECONDS = int(IDLE.total_seconds())
_TOKEN_BYTES = 32
_SERIAL_BYTES = 5
#: of what the cluster says about a Job that it refuses
_SHOWN = 512


class JobRefused(Exception):
    """The cluster does not let a publication's Job be made: a quota, a policy, a limit."""


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
        handout: Handout,
    ) -> None:
        self._client = client
        self._applier = applier
        self._registry = registry
        self._board = board
        self._slots = slots
        self._jobs = jobs
        self._handout = handout

    async def act(self, key: Key, model: AnyModel, action: state.Action) -> None:
        """Carry one action out."""
        match action:
            case state.AddFinalizer():
                await add_finalizer(self._client, model, FINALIZER)
            case state.RemoveFinalizer():
                await remove_finalizer(self._client, model, FINALIZER)
            case state.IssueUpload(transfer):
                await self._issue_upload(key, model, transfer)
            case state.RefreshUpload():
                await self._refresh_upload(key, model)
            case state.WithdrawUpload():
                await self._withdraw_upload(key, model)
            case state.StartPublication(attempt):
                await self._start_publication(key, model, attempt)
            case state.StepBack(attempt, obstacle):
                await self._step_back(model, attempt, obstacle)
            case state.DeleteJobs():
                await self._delete_jobs(model)
            case _:
                await self._at_registry(key, model, action)

    async def _at_registry(self, key: Key, model: AnyModel, action: state.Action) -> None:
        client, repository = await self._registry.client(), names.repository(key)
        match action:
            case state.RevokeTransfer(transfer):
                await self._revoke(transfer, keep_sessions=True)
            case state.RevokeTransfers():
                for item in await client.list_transfers():
                    if names.uid_of(item.id) == model.metadata.uid:
                        await self._revoke(item.id)
                await client.end_sessions(repository)
            case state.RemoveTag(tag):
                await client.delete_manifest(repository, tag)
            case state.CloseRepository():
                await client.close_repository(repository)
            case _:
                raise TypeError(f"no such action: {action}")
        self._registry.answered()

    async def _revoke(self, transfer: str, *, keep_sessions: bool = False) -> None:
        await (await self._registry.client()).revoke_transfer(transfer, keep_sessions=keep_sessions)
        self._board.revoked(transfer)

    async def _step_back(self, model: AnyModel, attempt: int, obstacle: state.Obstacle) -> None:
        """End an attempt; whoever its Job's end wakes up has to find it behind them already."""
        metadata = model.metadata
        self._slots.hinder(metadata.uid, obstacle)
        transfer = names.publication_transfer(metadata.uid, metadata.generation, attempt)
        await self._revoke(transfer, keep_sessions=True)
        self._registry.answered()
        await self._delete_jobs(model)

    async def _issue_upload(self, key: Key, model: AnyModel, standing: str | None) -> None:
        await self._require_role(key)
        await self._clear_secret(key, model, keep=standing is not None)
        metadata = model.metadata
        transfer = standing or names.upload_transfer(
            metadata.uid, metadata.generation, secrets.token_hex(_SERIAL_BYTES)
        )
        token = secrets.token_urlsafe(_TOKEN_BYTES).encode()
        # The Secret comes last: whoever can read the token can use it. Without one all is issued again.
        await self._applier.apply(self._handout.role(key, model))
        spec = TransferSpec(
            service_account=f"{self._jobs.namespace}/{GATEWAY}",
            repository=names.repository(key),
            purpose="upload",
            pod_prefix=GATEWAY,
            actions=("pull", "push"),
            token_hash=hashlib.sha256(token).hexdigest(),
            idle_seconds=_IDLE_SECONDS,
        )
        await (await self._registry.client()).put_transfer(transfer, spec)
        self._registry.answered()
        self._board.put(transfer, "upload", spec.repository)
        await self._applier.apply(self._handout.secret(key, model, transfer, token))

    async def _clear_secret(self, key: Key, model: AnyModel, *, keep: bool) -> None:
        """Make way for the upload's Secret: never over somebody else's.

        One for an earlier transfer is deleted, whoever's life it was from: the age of the Secret is the
        upload's.
        """
        name, namespace = names.upload_secret(key), self._handout.place(key)
        found = await self._client.find(Secret, name, namespace)
        if found is None or (keep and owned(found, model)):
            return
        if not owned(found, model) and not names.transfer_of(found):
            raise NeedsUser(
                "SecretExists",
                f"Secret {namespace}/{name} is not ours, and its name is needed for the upload: delete it",
            )
        await self._client.delete(Secret, name, namespace, uid=found.metadata.uid)

    async def _require_role(self, key: Key) -> None:
        """Refuse to write over somebody else's Role; one of an earlier life of the model is taken over."""
        name, namespace = names.upload_role(key), self._handout.place(key)
        found = await self._client.find(Role, name, namespace)
        if found is None or any(
            (owner.kind, owner.name) == (key.kind, key.name) for owner in found.metadata.owner_references
        ):
            return
        raise NeedsUser(
            "RoleExists",
            f"Role {namespace}/{name} is not ours, and its name is needed for the upload: delete it",
        )

    async def _refresh_upload(self, key: Key, model: AnyModel) -> None:
        found = await self._client.find(Secret, names.upload_secret(key), self._handout.place(key))
        if found is not None and owned(found, model) and TOKEN in found.data:
            transfer, token = names.transfer_of(found), found.data[TOKEN]
            await self._applier.apply(self._handout.secret(key, model, transfer, token))

    async def _withdraw_upload(self, key: Key, model: AnyModel) -> None:
        namespace = self._handout.place(key)
        secret = await self._client.find(Secret, names.upload_secret(key), namespace)
        if secret is not None and owned(secret, model):
            await self._client.delete(Secret, secret.metadata.name, namespace, uid=secret.metadata.uid)
        role = await self._client.find(Role, names.upload_role(key), namespace)
        if role is not None and owned(role, model):
            await self._client.delete(Role, role.metadata.name, namespace, uid=role.metadata.uid)

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
            if isinstance(error, Invalid) or (
                isinstance(error, Forbidden) and not error.namespace_terminating
            ):
                raise JobRefused(error.message[:_SHOWN]) from error
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
            idle_seconds=_IDLE_SECONDS,
        )
        await client.put_transfer(transfer, spec)
        self._registry.answered()
        self._board.put(transfer, "publication", repository)

    async def _delete_jobs(self, model: AnyModel) -> None:
        selector = f"{names.UID_LABEL}={model.metadata.uid}"
        for job in await self._client.list(Job, self._jobs.namespace, label_selector=selector):
            await self._client.delete(Job, job.metadata.name, self._jobs.namespace, uid=job.metadata.uid)
