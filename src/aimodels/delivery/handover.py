"""Giving a filled volume to the claim of a user's namespace, and taking it back.

What belongs here: the steps on volume and claims, each repeatable from whatever state a crash left. What
does not: when they are taken (``decide``).

The idiom is that of volume populators: the volume is kept (Retain) and points at the claim to come; that
claim is made and bound; then the volume gets its class's own reclaim policy back, or the bytes would
outlive the namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aimodels.api.reasons import DeliveryBlockedReason
from aimodels.delivery import claims
from aimodels.delivery.names import (
    DELIVERED,
    RECLAIM_ANNOTATION,
    ROLE_LABEL,
    claim_name,
)
from aimodels.delivery.state import Blocked
from kubekit.errors import AlreadyExists, Forbidden, Invalid, NotFound, Transient
from kubekit.resources import PersistentVolume, PersistentVolumeClaim

if TYPE_CHECKING:
    from aimodels.delivery.claims import Claim
    from kubekit.client import Client


class NamespaceGone(Exception):
    """The namespace is being deleted, or is not there: an end, not an error."""


async def ask_quota(client: Client, manifest: dict[str, Any]) -> Blocked | None:
    """Return why the namespace would not take the claim, or None; nothing is made."""
    return await _create(client, manifest, dry_run=True)


async def hand_over(client: Client, fill: Claim) -> Blocked | None:
    """Point the volume at the namespace's claim and make that claim; Kubernetes binds the two.

    What the namespace refuses is told, and the filled claim is kept until it does not refuse any more.
    """
    namespace, name = fill.target.namespace, claim_name(fill.target.reference, fill.serial)
    existing = await client.find(PersistentVolumeClaim, name, namespace)
    if existing is not None and existing.metadata.deleting:
        raise Transient("ClaimTerminating", f"an earlier claim {namespace}/{name} is still being deleted")
    if existing is not None and claims.read(existing, "") is None:
        return _foreign(name)
    volume = await _volume(client, fill)
    if volume is None:
        raise Transient("VolumeMissing", f"the volume {fill.volume} of {fill.name} is not there")
    if existing is None:
        refused = await ask_quota(client, claims.user_claim(fill))
        if refused is not None:
            return refused
    uid = existing.metadata.uid if existing is not None else ""
    if not _points_at(volume, namespace, name, uid):
        await _point(client, volume, namespace=namespace, name=name, uid=None, policy="Retain")
    if existing is None:
        return await _create(client, claims.user_claim(fill, fill.volume))
    return None


async def restore(client: Client, fill: Claim) -> None:
    """Give the volume the reclaim policy back that it was made with."""
    volume = await _volume(client, fill)
    if volume is not None:
        await _restore(client, volume)


async def _restore(client: Client, volume: PersistentVolume) -> None:
    policy = volume.metadata.annotations.get(RECLAIM_ANNOTATION)
    if policy is None:
        return
    body = {
        "metadata": {
            "resourceVersion": volume.metadata.resource_version,
            "annotations": {RECLAIM_ANNOTATION: None},
        },
        "spec": {"persistentVolumeReclaimPolicy": policy},
    }
    await client.patch(PersistentVolume, volume.metadata.name, body)


async def take_back(client: Client, fill: Claim) -> None:
    """Undo a hand-over that nobody waits for, so that the volume goes with the filled claim.

    A volume that the namespace's claim already has stays with it.
    """
    volume = await _volume(client, fill)
    policy = volume.metadata.annotations.get(RECLAIM_ANNOTATION) if volume is not None else None
    if volume is None or policy is None:
        return
    taken = volume.spec.claim_ref is not None and bool(volume.spec.claim_ref.uid)
    if taken:
        await restore(client, fill)
    else:
        await _point(client, volume, namespace=fill.namespace, name=fill.name, uid=fill.uid, policy=policy)


async def conclude(client: Client, module_namespace: str) -> list[str]:
    """End every hand-over that is under way, when nobody will go on with it; return volumes without a claim.

    Where the namespace has its claim already Kubernetes binds the two without us; where it has not, the
    volume goes back to the filled claim. Nothing stays behind with a policy that is not its own.
    """
    known = await client.list(PersistentVolumeClaim, label_selector=ROLE_LABEL)
    found = [claim for one in known if (claim := claims.read(one, module_namespace)) is not None]
    fills = {claim.volume: claim for claim in found if claim.filling}
    delivered = {(claim.namespace, claim.name) for claim in found if not claim.filling}
    unclaimed = []
    for volume in await client.list(PersistentVolume, label_selector=f"{ROLE_LABEL}={DELIVERED}"):
        if RECLAIM_ANNOTATION not in volume.metadata.annotations:
            continue
        name, reference = volume.metadata.name, volume.spec.claim_ref
        has_claim = reference is not None and (reference.namespace, reference.name) in delivered
        if name in fills and not has_claim:
            await take_back(client, fills[name])
        else:
            await _restore(client, volume)
        if name not in fills and not has_claim:
            unclaimed.append(name)
    return unclaimed


async def _volume(client: Client, fill: Claim) -> PersistentVolume | None:
    return await client.find(PersistentVolume, fill.volume) if fill.volume else None


def _points_at(volume: PersistentVolume, namespace: str, name: str, uid: str) -> bool:
    """Tell whether the volume waits for, or belongs to, exactly this claim."""
    reference = volume.spec.claim_ref
    if reference is None or (reference.namespace, reference.name) != (namespace, name):
        return False
    return reference.uid in {"", uid}


async def _point(
    client: Client, volume: PersistentVolume, *, namespace: str, name: str, uid: str | None, policy: str
) -> None:
    """Keep or release the volume and name its claim, in one write."""
    own = volume.metadata.annotations.get(RECLAIM_ANNOTATION) or volume.spec.persistent_volume_reclaim_policy
    body = {
        "metadata": {
            "resourceVersion": volume.metadata.resource_version,
            "labels": {ROLE_LABEL: DELIVERED},
            "annotations": {RECLAIM_ANNOTATION: own if uid is None else None},
        },
        "spec": {
            "persistentVolumeReclaimPolicy": policy,
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": namespace,
                "name": name,
                "uid": uid,
                "resourceVersion": None,
            },
        },
    }
    await client.patch(PersistentVolume, volume.metadata.name, body)


async def _create(client: Client, manifest: dict[str, Any], *, dry_run: bool = False) -> Blocked | None:
    """Make a claim in a user's namespace, or return why it does not take it."""
    namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
    try:
        await client.create(manifest, dry_run=dry_run)
    except AlreadyExists:
        existing = await client.find(PersistentVolumeClaim, name, namespace)
        ours = existing is None or claims.read(existing, "") is not None
        return None if ours else _foreign(name)
    except NotFound as error:
        raise NamespaceGone(namespace) from error
    except Forbidden as error:
        if error.namespace_terminating:
            raise NamespaceGone(namespace) from error
        return _refused(namespace, name, error.message, quota=error.quota_exceeded)
    except Invalid as error:
        return _refused(namespace, name, error.message, quota=False)
    return None


def _foreign(name: str) -> Blocked:
    return Blocked(
        DeliveryBlockedReason.SHARED_PVC_CLAIM_PENDING,
        f"A claim {name} that does not belong to ai-models is in the way. Delete or rename it.",
        hard=True,
    )


def _refused(namespace: str, name: str, message: str, *, quota: bool) -> Blocked:
    if quota:
        return Blocked(
            DeliveryBlockedReason.SHARED_PVC_QUOTA_EXCEEDED,
            f"The ResourceQuota of {namespace} has no room for the claim {name}: {message}. "
            "Free space or have the quota raised; delivery goes on by itself.",
            hard=True,
        )
    return Blocked(
        DeliveryBlockedReason.SHARED_PVC_CLAIM_PENDING,
        f"The namespace {namespace} does not take the claim {name}: {message}",
        hard=True,
    )
