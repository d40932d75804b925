"""Claims as delivery sees them, and which one a workload mounts.

What belongs here: reading a claim's labels, choosing a serial, sizes. What does not: making or deleting
claims.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aimodels.delivery.names import (
    DELIVERED,
    DIGEST_ANNOTATION,
    FILLING,
    MODULE_LABEL,
    ROLE_LABEL,
    SERIAL_ANNOTATION,
    SERIAL_LIMIT,
    TARGET_ANNOTATION,
    DeliveryKey,
    claim_name,
    fill_name,
    parse_serial,
    parse_target,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.resources import PersistentVolumeClaim

SMALLEST_BYTES = 1 << 30
_LOST = "Lost"


@dataclass(frozen=True)
class Contents:
    """What a claim is for, and how it is asked for."""

    target: DeliveryKey
    serial: int
    digest: str
    storage_class: str
    requested: str


@dataclass(frozen=True)
class Claim(Contents):
    """One of our claims: the one that is filled, or the one that workloads mount."""

    namespace: str
    name: str
    uid: str
    filling: bool
    bound: bool
    lost: bool
    deleting: bool
    volume: str


def read(claim: PersistentVolumeClaim, module_namespace: str) -> Claim | None:
    """Return what our labels and annotations say of a claim; None when it is not to be believed.

    Users may write any label: a claim that is being filled is ours in our namespace only, and a delivered one
    speaks for its own namespace only. Otherwise a namespace could pass its bytes off as another's model. Its
    name has to be the one that follows from what it says.
    """
    metadata = claim.metadata
    target = parse_target(metadata.annotations.get(TARGET_ANNOTATION, ""))
    serial = parse_serial(metadata.annotations.get(SERIAL_ANNOTATION, ""))
    digest = metadata.annotations.get(DIGEST_ANNOTATION, "")
    role = metadata.labels.get(ROLE_LABEL)
    if target is None or serial is None or role not in {DELIVERED, FILLING}:
        return None
    filling = role == FILLING
    name = fill_name(target, serial, digest) if filling else claim_name(target.reference, serial)
    namespace = module_namespace if filling else target.namespace
    if (metadata.namespace, metadata.name) != (namespace, name):
        return None
    return Claim(
        target=target,
        serial=serial,
        digest=digest,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        filling=filling,
        bound=claim.bound,
        lost=claim.status.phase == _LOST,
        deleting=metadata.deleting,
        volume=claim.spec.volume_name,
        storage_class=claim.spec.storage_class_name or "",
        requested=claim.spec.resources.requests.get("storage", ""),
    )


def choose(listed: int | None, digest: str | None, known: Iterable[Claim]) -> int:
    """Return the serial of the claim to mount for a model.

    While a template's own choice fits the model it stays; a claim that holds the model's bytes is taken
    before a new one; a name that still holds other bytes is never taken. Without a digest nothing changes.
    """
    claims = list(known)
    taken = {claim.serial for claim in claims}
    if digest is None:
        return listed or max(taken, default=1)
    fitting = {
        claim.serial
        for claim in claims
        if claim.digest == digest and not claim.deleting and not (claim.lost and not claim.filling)
    }
    if listed in fitting and listed is not None:
        return listed
    if fitting:
        return max(fitting)
    if listed is not None and listed not in taken:
        return listed
    following = max(taken, default=0) + 1
    if following <= SERIAL_LIMIT:
        return following
    return next(serial for serial in range(1, SERIAL_LIMIT) if serial not in taken)


def size_for(model_bytes: int) -> int:
    """Return how large a claim for so many bytes of model is: a tenth more, at least 1 GiB."""
    return max(SMALLEST_BYTES, (model_bytes * 11 + 9) // 10)


def user_claim(contents: Contents, volume: str = "") -> dict[str, Any]:
    """Return the claim that the namespace's workloads mount."""
    target = contents.target
    name = claim_name(target.reference, contents.serial)
    return _manifest(contents, target.namespace, name, DELIVERED, volume)


def fill_claim(contents: Contents, module_namespace: str) -> dict[str, Any]:
    """Return the claim that is filled in the module's namespace."""
    name = fill_name(contents.target, contents.serial, contents.digest)
    return _manifest(contents, module_namespace, name, FILLING, "")


def _manifest(contents: Contents, namespace: str, name: str, role: str, volume: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": contents.requested}},
        "storageClassName": contents.storage_class,
    }
    if volume:
        spec["volumeName"] = volume
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": {ROLE_LABEL: role, **MODULE_LABEL},
            "annotations": {
                TARGET_ANNOTATION: str(contents.target),
                SERIAL_ANNOTATION: str(contents.serial),
                DIGEST_ANNOTATION: contents.digest,
            },
        },
        "spec": spec,
    }
