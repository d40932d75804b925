"""Names, labels and annotations of delivery, and the keys it works by.

What belongs here: every string that two modules, a chart or a person may look for. What does not: any object.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from aimodels.api.model import GROUP, ClusterModel, Model

MODEL, CLUSTER_MODEL = Model.KIND.name, ClusterModel.KIND.name

#: on a workload, by its author
MODEL_ANNOTATION = f"{GROUP}/model"
CLUSTER_MODEL_ANNOTATION = f"{GROUP}/clustermodel"
#: on a workload, by us
BLOCKED_REASON_ANNOTATION = f"{GROUP}/model-delivery-blocked-reason"
BLOCKED_MESSAGE_ANNOTATION = f"{GROUP}/model-delivery-blocked-message"
#: on a workload's Pod template, by the webhook
MARKER_ANNOTATION = f"{GROUP}/model-delivery"

#: on claims, fill Jobs and volumes
ROLE_LABEL = f"{GROUP}/claim-role"
DELIVERED, FILLING = "delivered", "filling"
TARGET_ANNOTATION = f"{GROUP}/delivery-target"
SERIAL_ANNOTATION = f"{GROUP}/claim-serial"
DIGEST_ANNOTATION = f"{GROUP}/artifact-digest"
RECLAIM_ANNOTATION = f"{GROUP}/restore-reclaim-policy"
MODULE_LABEL = {"module": "ai-models"}
APP_LABEL = "app"
COPY_APP = "ai-models-copy"

CACHE_DIR = "/data/modelcache"
MODELS_DIR = f"{CACHE_DIR}/models"
DIR_VARIABLE, LIST_VARIABLE = "AI_MODELS_MODELS_DIR", "AI_MODELS_MODELS"

#: a namespace of the cluster's own parts: nothing is delivered there
_SYSTEM_NAMESPACE, _MODULE_PREFIX = "kube-system", "d8-"
_OBJECT_LIMIT = 253
_SERIAL_DIGITS = 6
#: the largest serial of a claim
SERIAL_LIMIT = 10**_SERIAL_DIGITS - 1
_HASH = 10
_CLAIM_PREFIXES = {MODEL: "ai-model-", CLUSTER_MODEL: "ai-clustermodel-"}


class Reference(NamedTuple):
    """A model as a workload names it."""

    kind: str
    name: str

    def __str__(self) -> str:
        """Return the reference as a person writes it."""
        return f"{self.kind} {self.name}"


class DeliveryKey(NamedTuple):
    """One model in one namespace: what claims and copies are made for."""

    namespace: str
    kind: str
    name: str

    @property
    def reference(self) -> Reference:
        """Return the model as the namespace's workloads name it."""
        return Reference(self.kind, self.name)

    @property
    def model(self) -> tuple[str, str, str]:
        """Return kind, namespace and name of the model object."""
        return self.kind, self.model_namespace, self.name

    @property
    def model_namespace(self) -> str:
        """Return where the model object lives; empty for a ClusterModel."""
        return self.namespace if self.kind == MODEL else ""

    def __str__(self) -> str:
        """Return the key in the form of ``TARGET_ANNOTATION``."""
        return f"{self.namespace}/{self.kind}/{self.name}"


class WorkloadKey(NamedTuple):
    """A workload: its kind, namespace and name."""

    kind: str
    namespace: str
    name: str


def parse_target(text: str) -> DeliveryKey | None:
    """Return the key that ``str`` made, or None."""
    parts = text.split("/")
    match parts:
        case [namespace, kind, name] if namespace and name and kind in _CLAIM_PREFIXES:
            return DeliveryKey(namespace, kind, name)
    return None


def model_place(kind: str, namespace: str, name: str) -> str:
    """Return ``Model/<namespace>/<name>`` or ``ClusterModel//<name>``."""
    return f"{kind}/{namespace if kind == MODEL else ''}/{name}"


def serves(namespace: str, module_namespace: str) -> bool:
    """Tell whether workloads of a namespace get models."""
    return namespace not in {_SYSTEM_NAMESPACE, module_namespace} and not namespace.startswith(_MODULE_PREFIX)


def claim_name(reference: Reference, serial: int) -> str:
    """Return the name of the claim that a workload's template mounts; a long one ends in a hash."""
    prefix = _CLAIM_PREFIXES[reference.kind]
    room = _OBJECT_LIMIT - len(prefix) - 1 - _SERIAL_DIGITS
    name = reference.name
    if len(name) > room:
        digest = sha256(name.encode()).hexdigest()[:_HASH]
        name = f"{name[: room - _HASH - 1].rstrip('-.')}-{digest}"
    return f"{prefix}{name}-{serial}"


def serial_of(reference: Reference, claim: str) -> int | None:
    """Return the serial in a claim's name, or None when it is no claim of this model."""
    serial = parse_serial(claim.rpartition("-")[2])
    return serial if serial is not None and claim_name(reference, serial) == claim else None


def parse_serial(text: str) -> int | None:
    """Return a serial as it was written, or None: anybody may write anything where serials stand."""
    if len(text) > _SERIAL_DIGITS or not (text.isascii() and text.isdecimal()):
        return None
    return int(text) or None


def may_be_claim(name: str) -> bool:
    """Tell whether a claim may be one of ours by its name."""
    return name.startswith(tuple(_CLAIM_PREFIXES.values()))


def volume_name(reference: Reference) -> str:
    """Return the name of a template's volume; it depends on the model only."""
    return f"ai-models-{sha256(f'{reference.kind}/{reference.name}'.encode()).hexdigest()[:_HASH]}"


def is_volume_name(name: str) -> bool:
    """Tell whether a template's volume is one of ours."""
    prefix, _, digest = name.rpartition("-")
    return prefix == "ai-models" and len(digest) == _HASH and set(digest) <= set("0123456789abcdef")


def fill_name(key: DeliveryKey, serial: int, digest: str) -> str:
    """Return the name of the claim that is filled in the module's namespace."""
    identity = f"{key}/{serial}/{digest}"
    return f"ai-model-fill-{sha256(identity.encode()).hexdigest()[:16]}"


def copy_name(fill_uid: str) -> str:
    """Return the name of a fill's Job, the id of its transfer and the prefix of its Pods' names."""
    return f"copy-{fill_uid}"


def model_path(name: str) -> str:
    """Return where a container sees a model."""
    return f"{MODELS_DIR}/{name}"
