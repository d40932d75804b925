"""Who may do what, read from rendered RBAC objects."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Manifest = dict[str, Any]


def identities(objects: list[Manifest]) -> dict[str, list[str]]:
    """Return the rights of every ServiceAccount and group, one line a right; an account may have none."""
    roles = {_key(item): item for item in objects if item["kind"] in {"Role", "ClusterRole"}}
    rights: dict[str, list[str]] = {
        item["metadata"]["name"]: [] for item in objects if item["kind"] == "ServiceAccount"
    }
    for binding in objects:
        if binding["kind"] not in {"RoleBinding", "ClusterRoleBinding"}:
            continue
        namespace = binding["metadata"].get("namespace")
        reference = binding["roleRef"]
        role = roles[reference["kind"], reference["name"], namespace if reference["kind"] == "Role" else None]
        where = namespace or "*"
        for subject in binding["subjects"]:
            if subject["kind"] == "Group":
                rights.setdefault(subject["name"], [])
            rights[subject["name"]] += [f"{where}: {right}" for right in rules(role)]
    return {name: sorted(lines) for name, lines in sorted(rights.items())}


def rules(role: Manifest) -> Iterator[str]:
    """Yield one line for each resource of a role."""
    for rule in role["rules"]:
        names = f" {','.join(rule['resourceNames'])}" if "resourceNames" in rule else ""
        for group, resource in itertools.product(rule["apiGroups"], rule["resources"]):
            full = f"{resource}.{group}" if group else resource
            yield f"{full}{names}: {' '.join(sorted(rule['verbs']))}"


def _key(item: Manifest) -> tuple[str, str, str | None]:
    return item["kind"], item["metadata"]["name"], item["metadata"].get("namespace")
