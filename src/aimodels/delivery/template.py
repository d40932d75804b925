"""What delivery changes in a workload's Pod template. Pure and deterministic: equal input, equal template.

What belongs here: volumes, mounts, variables and the marker. What does not: which claim is mounted
(``claims``).

Ours are the volumes named by ``volume_name``, the mounts of them, the two variables and the marker
annotation, and they are made exactly as they should be, also when the set of models shrinks. Everything
else is the author's and stays as it is. Applying twice changes nothing.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from aimodels.delivery.names import (
    CACHE_DIR,
    DIR_VARIABLE,
    LIST_VARIABLE,
    MARKER_ANNOTATION,
    MODELS_DIR,
    Reference,
    is_volume_name,
    model_path,
    volume_name,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CONTRACT_VERSION = 1
#: the model's files inside the volume
SUB_PATH = "model"
_CONTAINERS = ("initContainers", "containers")
_MARKER_LIMIT = 64 * 1024


class Mounted(NamedTuple):
    """A model and the claim it is mounted from."""

    reference: Reference
    claim: str


class InvalidTemplate(Exception):
    """The author's own template stands in the way; the text says where."""


class _MarkedClaim(msgspec.Struct, frozen=True):
    kind: str
    name: str
    claim: str


class Marker(msgspec.Struct, frozen=True):
    """What the template says about itself: by which contract it was changed, and which claims it mounts."""

    version: int
    claims: tuple[_MarkedClaim, ...] = ()

    def claim_of(self, reference: Reference) -> str | None:
        """Return the claim that is listed for a model."""
        found = (one.claim for one in self.claims if (one.kind, one.name) == reference)
        return next(found, None)


def read_marker(template: Mapping[str, Any]) -> Marker | None:
    """Return the template's marker; one that cannot be read counts as one without claims."""
    text = _annotations(template).get(MARKER_ANNOTATION)
    if not isinstance(text, str):
        return None
    try:
        return msgspec.json.decode(text[:_MARKER_LIMIT], type=Marker)
    except msgspec.DecodeError:
        return Marker(version=0)


def deliver(template: Mapping[str, Any], mounted: Sequence[Mounted]) -> dict[str, Any]:
    """Return the template with exactly these models mounted, or raise ``InvalidTemplate``."""
    if mounted:
        _refuse_foreign_mounts(template)
    elif read_marker(template) is None:
        return dict(template)
    spec = dict(template.get("spec") or {})
    volumes = [one for one in spec.get("volumes") or () if not is_volume_name(one.get("name", ""))]
    _set_list(spec, "volumes", [*volumes, *map(_volume, mounted)])
    for field in _CONTAINERS:
        if field in spec:
            spec[field] = [_container(one, mounted) for one in spec[field] or ()]
    return dict(template) | {"metadata": _metadata(template, mounted), "spec": spec}


def _volume(mounted: Mounted) -> dict[str, Any]:
    source = {"claimName": mounted.claim, "readOnly": True}
    return {"name": volume_name(mounted.reference), "persistentVolumeClaim": source}


def _container(container: Mapping[str, Any], mounted: Sequence[Mounted]) -> dict[str, Any]:
    changed = dict(container)
    mounts = [one for one in container.get("volumeMounts") or () if not is_volume_name(one.get("name", ""))]
    _set_list(changed, "volumeMounts", [*mounts, *map(_mount, mounted)])
    ours = {DIR_VARIABLE, LIST_VARIABLE}
    variables = [one for one in container.get("env") or () if one.get("name") not in ours]
    _set_list(changed, "env", [*variables, *_variables(mounted)])
    return changed


def _mount(mounted: Mounted) -> dict[str, Any]:
    return {
        "name": volume_name(mounted.reference),
        "mountPath": model_path(mounted.reference.name),
        "subPath": SUB_PATH,
        "readOnly": True,
    }


def _variables(mounted: Sequence[Mounted]) -> list[dict[str, str]]:
    if not mounted:
        return []
    listed = [{"name": one.reference.name, "path": model_path(one.reference.name)} for one in mounted]
    return [
        {"name": DIR_VARIABLE, "value": MODELS_DIR},
        {"name": LIST_VARIABLE, "value": msgspec.json.encode(listed).decode()},
    ]


def _metadata(template: Mapping[str, Any], mounted: Sequence[Mounted]) -> dict[str, Any]:
    metadata = dict(template.get("metadata") or {})
    annotations = {name: value for name, value in _annotations(template).items() if name != MARKER_ANNOTATION}
    if mounted:
        claims = tuple(_MarkedClaim(*one.reference, one.claim) for one in mounted)
        annotations[MARKER_ANNOTATION] = msgspec.json.encode(Marker(CONTRACT_VERSION, claims)).decode()
    metadata.pop("annotations", None)
    return metadata | {"annotations": annotations} if annotations else metadata


def _set_list(target: dict[str, Any], field: str, items: list[Any]) -> None:
    """Set a list, or leave it out when it is empty and was not there."""
    if items or target.get(field):
        target[field] = items
    if not target.get(field):
        target.pop(field, None)


def _annotations(template: Mapping[str, Any]) -> Mapping[str, Any]:
    return (template.get("metadata") or {}).get("annotations") or {}


def _refuse_foreign_mounts(template: Mapping[str, Any]) -> None:
    spec = template.get("spec") or {}
    for field in _CONTAINERS:
        for container in spec.get(field) or ():
            for mount in container.get("volumeMounts") or ():
                path = posixpath.normpath("/" + str(mount.get("mountPath") or "").lstrip("/"))
                taken = path in {CACHE_DIR, MODELS_DIR} or path.startswith(f"{MODELS_DIR}/")
                if taken and not is_volume_name(mount.get("name", "")):
                    raise InvalidTemplate(
                        f"The container {container.get('name')} mounts {mount.get('name')} at {path}, where "
                        f"models are mounted. Mount it outside {CACHE_DIR}."
                    )
