"""Where Pods may run: node labels and tolerations, checked before any Pod is asked for with them.

What belongs here: the rules of Kubernetes for both, so that a wrong setting is refused at the start and not
by every Pod. What does not: where the setting comes from.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

#: more than anybody needs, and few enough for every manifest
MOST_LABELS = 16
MOST_TOLERATIONS = 32

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"(?=.{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/")


class Toleration(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """A taint that the Pods bear."""

    key: str = ""
    operator: Literal["", "Exists", "Equal"] = ""
    value: str = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    toleration_seconds: int | None = None

    def __post_init__(self) -> None:
        """Refuse what the API server would refuse."""
        if self.key and not is_label(self.key):
            raise ValueError(f"{self.key!a} is no key of a taint")
        if not self.key and self.operator != "Exists":
            raise ValueError("a toleration without a key has to have the operator Exists")
        if self.operator == "Exists" and self.value:
            raise ValueError("a toleration with the operator Exists has no value")
        if self.value and not _NAME.fullmatch(self.value):
            raise ValueError(f"{self.value!a} is no value of a taint")
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            raise ValueError("tolerationSeconds go with the effect NoExecute alone")


@dataclass(frozen=True)
class Placement:
    """Labels that a node has to have, and taints that it may have."""

    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()

    def fields(self) -> dict[str, Any]:
        """Return the fields of a Pod's spec; none of them where nothing is asked for."""
        tolerations = [msgspec.to_builtins(one) for one in self.tolerations]
        wanted = {"nodeSelector": dict(self.node_selector), "tolerations": tolerations}
        return {name: value for name, value in wanted.items() if value}


def check(node_selector: dict[str, str], tolerations: tuple[Toleration, ...]) -> None:
    """Raise ValueError for what no Pod could have."""
    if len(node_selector) > MOST_LABELS:
        raise ValueError(f"{len(node_selector)} labels in the node selector; at most {MOST_LABELS} are taken")
    if len(tolerations) > MOST_TOLERATIONS:
        raise ValueError(f"{len(tolerations)} tolerations; at most {MOST_TOLERATIONS} are taken")
    for key, value in node_selector.items():
        if not is_label(key):
            raise ValueError(f"{key!a} in the node selector is no key of a label")
        if value and not _NAME.fullmatch(value):
            raise ValueError(f"{value!a} in the node selector is no value of a label")


def is_label(key: str) -> bool:
    """Tell whether labels and taints may have the key: a name, maybe with a domain in front."""
    prefix = _PREFIX.match(key)
    return _NAME.fullmatch(key[prefix.end() :] if prefix else key) is not None
