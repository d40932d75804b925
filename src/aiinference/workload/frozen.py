"""A running template stays as it was made, until the order changes or somebody asks for an upgrade.

What belongs here: what a template was made from, and taking the old one back. What does not: how one is made
(``pods``).

A newer controller, recipe, gate or setting would render another template, and every running order would be
started anew. So the template is kept as it was made, on the object that it is for, together with a digest of
what the order asks for and of what its class has Pods be: not of the plan, and not of all that the planner is
told. While that digest is the same, the kept template is applied again, which also repairs what somebody else
has changed.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from aiinference.workload import names, paths

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from aiinference.workload.intent import Intent

#: of a Pod template with everything that a plan can say; annotations have 256 KiB together
_LIMIT = 128 << 10
_RECORD = frozenset(
    {
        *(names.MODEL_ANNOTATION, names.CLUSTER_MODEL_ANNOTATION),
        *(names.PLAN_ANNOTATION, names.LAUNCH_ANNOTATION, names.TEMPLATE_ANNOTATION),
    }
)


def launch_digest(intent: Intent) -> str:
    """Return the digest of all that an order or its class may change about a running replica."""
    said = {
        "asked": intent.asked,
        "paths": paths.of(intent.endpoint_type),
        "keys": intent.keys,
        "priorityClass": intent.policy.priority_class,
        "upgrade": intent.order.metadata.annotations.get(names.UPGRADE_ANNOTATION, ""),
    }
    if intent.proxied:
        said["proxied"] = True
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def record(intent: Intent, made: Mapping[str, Any]) -> dict[str, str]:
    """Return what the StatefulSet says about its template."""
    return {
        names.PLAN_ANNOTATION: made["metadata"]["annotations"][names.PLAN_ANNOTATION],
        names.LAUNCH_ANNOTATION: launch_digest(intent),
        names.TEMPLATE_ANNOTATION: json.dumps(made, sort_keys=True, separators=(",", ":")),
    }


def digest(current: Mapping[str, str]) -> str:
    """Return the digest of what a StatefulSet says that it was made from."""
    said = json.dumps([current.get(name, "") for name in sorted(_RECORD)])
    return f"sha256:{sha256(said.encode()).hexdigest()}"


def trusted(current: Mapping[str, str], records: Collection[str]) -> Mapping[str, str] | None:
    """Return the annotations of a StatefulSet if it is known that this controller wrote its record.

    Whoever may change StatefulSets may change annotations. A record that was made up would be applied in this
    controller's name, so its digest lies where nobody else writes: in the order's status.
    """
    return current if digest(current) in records else None


def is_kept(name: str) -> bool:
    """Tell whether an annotation of a StatefulSet says what it was made from."""
    return name in _RECORD


def kept(intent: Intent, current: Mapping[str, str] | None) -> dict[str, Any] | None:
    """Return the template of the present StatefulSet, by its annotations, when it is to stay as it is."""
    if not current or current.get(names.LAUNCH_ANNOTATION) != launch_digest(intent):
        return None
    return template(current)


def template(current: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the template that the present StatefulSet was made with; None when its record is of no use."""
    text = current.get(names.TEMPLATE_ANNOTATION, "")
    if len(text) > _LIMIT:
        return None
    try:
        found: dict[str, Any] = json.loads(text)
        whole = bool(found["metadata"]["annotations"][names.PLAN_ANNOTATION] and found["spec"])
    except (ValueError, TypeError, KeyError):
        return None
    return found if whole else None
