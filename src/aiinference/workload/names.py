"""Names, labels and annotations of an order's objects.

What belongs here: every string that a person, a chart or another room may look for. What does not: any
object.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from aiinference.api.fields import GROUP

if TYPE_CHECKING:
    from aiinference.api.orders import InferenceService
    from kubekit.resources.meta import ObjectMeta

_LABELS = "ai-inference.deckhouse.io"
MANAGED_LABEL = f"{_LABELS}/managed"
ORDER_LABEL = f"{_LABELS}/order"
MODULE_LABELS = {"heritage": "deckhouse", "module": "ai-inference"}

#: on the StatefulSet's own metadata: which model ai-models delivers to its Pods
MODEL_ANNOTATION = f"{GROUP}/model"
CLUSTER_MODEL_ANNOTATION = f"{GROUP}/clustermodel"
#: on the StatefulSet and on its Pods: the plan that they run by
PLAN_ANNOTATION = f"{GROUP}/plan-digest"
#: on the StatefulSet: what its template was made from, and the template as it was made then
LAUNCH_ANNOTATION = f"{GROUP}/launch-digest"
TEMPLATE_ANNOTATION = f"{GROUP}/frozen-template"
#: on an order: any new value renders the template anew, with the gate and the settings of today
UPGRADE_ANNOTATION = f"{GROUP}/upgrade"

RUNTIME, GATE = "runtime", "gate"


def auth_secret(order: str) -> str:
    """Return the name of the Secret with the order's key."""
    return f"{order}-auth"


def auth_reader(order: str) -> str:
    """Return the name of the Role that reads it."""
    return f"{order}-auth-reader"


def certificate(order: str) -> str:
    """Return the name of the Secret with the certificate of the order's host."""
    return f"{order}-tls"


def selector(order: str) -> dict[str, str]:
    """Return the labels that exactly the order's Pods have."""
    return {ORDER_LABEL: order}


def labels(order: str) -> dict[str, str]:
    """Return the labels of everything that belongs to an order."""
    return {**MODULE_LABELS, MANAGED_LABEL: "true", **selector(order)}


def drain_path(uid: str) -> str:
    """Return the path that asks the gate of an order to finish; only readers of its Pods can know it."""
    return f"/drain/{sha256(f'drain/{uid}'.encode()).hexdigest()[:32]}"


def is_of_earlier(order: InferenceService, head: ObjectMeta) -> bool:
    """Tell whether an object is of an earlier order of the name: the cluster is about to delete it."""
    mine = order.metadata
    return any(
        (owner.kind, owner.name) == (order.KIND.name, mine.name) and owner.uid != mine.uid
        for owner in head.owner_references
    )


def metadata(order: InferenceService, name: str | None = None) -> dict[str, Any]:
    """Return the head of an object that goes with the order."""
    owner = {
        "apiVersion": order.KIND.api_version,
        "kind": order.KIND.name,
        "name": order.metadata.name,
        "uid": order.metadata.uid,
        "controller": True,
    }
    return {
        "name": name or order.metadata.name,
        "namespace": order.metadata.namespace,
        "labels": labels(order.metadata.name),
        "ownerReferences": [owner],
    }
