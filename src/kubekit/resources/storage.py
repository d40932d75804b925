"""Volumes: claims, persistent volumes, storage classes."""

import msgspec

from kubekit.resources.core import ObjectReference
from kubekit.resources.meta import Resource, resource

DEFAULT_CLASS_ANNOTATION = "storageclass.kubernetes.io/is-default-class"


class ResourceRequirements(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts asked for, as quantities."""

    requests: dict[str, str] = {}


class PersistentVolumeClaimSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a claim asks for."""

    access_modes: list[str] = []
    resources: ResourceRequirements = ResourceRequirements()
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = ""


class PersistentVolumeClaimStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a claim got."""

    phase: str = ""
    capacity: dict[str, str] = {}


@resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
class PersistentVolumeClaim(Resource, frozen=True, kw_only=True):
    """A claim to a volume."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()

    @property
    def bound(self) -> bool:
        """Tell whether the claim has its volume."""
        return self.status.phase == "Bound" and bool(self.spec.volume_name)


class PersistentVolumeSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is read of a volume."""

    access_modes: list[str] = []
    capacity: dict[str, str] = {}
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""


class PersistentVolumeStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A volume's phase: Available, Bound, Released, Failed."""

    phase: str = ""


@resource("v1", "PersistentVolume", "persistentvolumes", namespaced=False)
class PersistentVolume(Resource, frozen=True, kw_only=True):
    """A volume."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


@resource("storage.k8s.io/v1", "StorageClass", "storageclasses", namespaced=False)
class StorageClass(Resource, frozen=True, kw_only=True):
    """A class of volumes."""

    provisioner: str = ""
    reclaim_policy: str = "Delete"
    volume_binding_mode: str = "Immediate"

    @property
    def is_default(self) -> bool:
        """Tell whether claims without a class get this one."""
        return self.metadata.annotations.get(DEFAULT_CLASS_ANNOTATION) == "true"
