"""The CustomResourceDefinitions of Model and ClusterModel, made from their Structs.

What belongs here: columns and rules. What does not: the schema's translation (``kubekit.crd``) and the files
(``tools/generate_crds.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aimodels.api.model import GROUP, VERSION, ClusterModel, Model, ModelSpec, ModelStatus
from kubekit.crd import Column, Extras, Names, Rule, crd_manifest

if TYPE_CHECKING:
    from aimodels.api.model import AnyModel

LABELS = {"heritage": "deckhouse", "module": "ai-models"}
#: Models outlive the chart: uninstalling it must not delete what users made
ANNOTATIONS = {"helm.sh/resource-policy": "keep"}

_DESCRIPTIONS: dict[type[AnyModel], str] = {
    Model: "A model that workloads of this namespace can mount: fetched, checked and stored.",
    ClusterModel: "A model that workloads of every namespace can mount: fetched, checked and stored.",
}


def crds() -> list[dict[str, Any]]:
    """Return the definitions of all kinds of this product."""
    return [_crd(Model), _crd(ClusterModel)]


def _crd(kind: type[AnyModel]) -> dict[str, Any]:
    names = Names(
        group=GROUP,
        kind=kind.KIND.name,
        plural=kind.KIND.plural,
        singular=kind.KIND.name.lower(),
        scope="Namespaced" if kind.KIND.namespaced else "Cluster",
        categories=("ai-models",),
    )
    return crd_manifest(
        {"spec": ModelSpec, "status": ModelStatus},
        names,
        VERSION,
        description=_DESCRIPTIONS[kind],
        columns=_COLUMNS,
        rules=[
            *_SOURCE_RULES,
            *([] if kind.KIND.namespaced else [_NO_SECRET]),
            _SOURCE_IS_KEPT,
            _READY_FOR_SPEC,
        ],
        extras=Extras(labels=LABELS, annotations=ANNOTATIONS),
    )


_COLUMNS = (
    Column("Phase", ".status.phase"),
    Column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
    Column("Progress", ".status.progress"),
    Column("Format", ".status.resolved.format"),
    Column("Size", ".status.artifact.size"),
    Column("Age", ".metadata.creationTimestamp", "date"),
    Column("Source", ".status.source.resolvedType", priority=1),
    Column("Digest", ".status.artifact.digest", priority=1),
)

_SOURCE_RULES = (
    Rule(
        "[has(self.spec.source.url), has(self.spec.source.upload), has(self.spec.source.catalog)]"
        ".filter(given, given).size() == 1",
        "give exactly one of url, upload, catalog",
        ".spec.source",
    ),
    Rule(
        "!has(self.spec.source.authSecretRef) || has(self.spec.source.url)",
        "authSecretRef goes with url only",
        ".spec.source",
    ),
)
_NO_SECRET = Rule(
    "!has(self.spec.source.authSecretRef)",
    "a ClusterModel belongs to no namespace and cannot name a Secret; use a Model for a private repository",
    ".spec.source",
)
_SOURCE_IS_KEPT = Rule(
    "!has(oldSelf.status) || !has(oldSelf.status.artifact) || self.spec.source == oldSelf.spec.source",
    "the source cannot change once the model is stored; create another model",
    ".spec.source",
)


def _same(field: str, *parents: str) -> str:
    """Say in CEL that a field of spec.source and of status.observedSource are both absent or equal."""
    path = (*parents, field)
    wanted, observed = (
        ".".join((root, *path)) for root in ("self.spec.source", "self.status.observedSource")
    )
    return f"has({wanted}) == has({observed}) && (!has({wanted}) || {wanted} == {observed})"


# Two objects that are declared apart do not compare in CEL, so the fields are compared one by one.
_READY_FOR_SPEC = Rule(
    "!has(self.status) || !has(self.status.phase) || self.status.phase != 'Ready' || ("
    "has(self.status.observedSource)"
    f" && {_same('url')}"
    " && has(self.spec.source.catalog) == has(self.status.observedSource.catalog)"
    " && (!has(self.spec.source.catalog) || ("
    f"{_same('name', 'catalog')} && {_same('sourceName', 'catalog')}"
    ")))",
    "a Ready status speaks of another source than the object's; read the object again",
    ".status.observedSource",
)
