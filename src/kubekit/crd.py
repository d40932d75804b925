"""From a msgspec Struct to a CustomResourceDefinition with a structural schema.

What belongs here: the translation of JSON schema into what the API server takes. What does not: which kinds
there are. Constraints stand in ``msgspec.Meta(extra_json_schema=...)`` and not in the Struct's own types, so
that a newer object never fails to decode in an older controller.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_REFERENCE = "#/$defs/"
#: keys of JSON schema that a structural schema does not allow, or that mean defaulting there
_DROPPED = ("title", "default", "$defs")
_NAME = ".metadata.name"


@dataclass(frozen=True)
class Names:
    """How the kind is called in the API."""

    group: str
    kind: str
    plural: str
    singular: str
    scope: Literal["Namespaced", "Cluster"]
    categories: tuple[str, ...] = ()
    short: tuple[str, ...] = ()

    @property
    def crd(self) -> str:
        """Name of the CustomResourceDefinition object."""
        return f"{self.plural}.{self.group}"

    def manifest(self) -> dict[str, Any]:
        """Return the names as the definition's spec has them."""
        names: dict[str, Any] = {
            "kind": self.kind,
            "listKind": f"{self.kind}List",
            "plural": self.plural,
            "singular": self.singular,
            "categories": list(self.categories),
        }
        return names | {"shortNames": list(self.short)} if self.short else names


@dataclass(frozen=True)
class Column:
    """One column of ``kubectl get``; priority 1 shows with ``-o wide`` only."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    priority: int = 0


@dataclass(frozen=True)
class Rule:
    """A CEL rule of the schema and what is said when it is broken."""

    expression: str
    message: str
    path: str | None = None

    def manifest(self) -> dict[str, Any]:
        """Return the rule as an entry of ``x-kubernetes-validations``."""
        rule = {"rule": self.expression, "message": self.message}
        return rule if self.path is None else rule | {"fieldPath": self.path}


@dataclass(frozen=True)
class Extras:
    """What a chart adds to the definition's metadata."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def crd_manifest(
    parts: Mapping[str, type[msgspec.Struct]],
    names: Names,
    version: str,
    *,
    description: str,
    columns: Sequence[Column],
    rules: Sequence[Rule],
    required: Sequence[str] = ("spec",),
    extras: Extras = Extras(),
) -> dict[str, Any]:
    """Return the definition of a kind with one version that is served and stored.

    ``parts`` are the top-level fields beside metadata (``spec``, ``status``); ``rules`` hold for the root.
    """
    metadata: dict[str, Any] = {"type": "object"}
    if any(rule.path == _NAME for rule in rules):
        metadata["properties"] = {"name": {"type": "string"}}  # a rule's path has to be in the schema
    root: dict[str, Any] = {
        "type": "object",
        "description": description,
        "required": list(required),
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": metadata,
        }
        | {name: structural_schema(struct) for name, struct in parts.items()},
        "x-kubernetes-validations": [rule.manifest() for rule in rules],
    }
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(column) for column in columns],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": names.crd,
            "labels": dict(extras.labels),
            "annotations": dict(extras.annotations),
        },
        "spec": {
            "group": names.group,
            "scope": names.scope,
            "names": names.manifest(),
            "versions": [served],
        },
    }


def structural_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the Struct's schema without references, nulls, titles and defaults."""
    (schema,), definitions = msgspec.json.schema_components((struct,), ref_template=_REFERENCE + "{name}")
    return _structural(schema, definitions)


def _structural(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        target = definitions[node["$ref"].removeprefix(_REFERENCE)]
        # What stands beside the reference (a description) is nearer to the field than the Struct's own text.
        return _structural(
            {**target, **{key: value for key, value in node.items() if key != "$ref"}}, definitions
        )
    if "anyOf" in node:
        return _optional(node, definitions)
    schema = {key: value for key, value in node.items() if key not in _DROPPED}
    if "enum" in schema:
        schema.setdefault("type", "string")
    if schema.get("type") == "integer":
        schema.setdefault("format", "int64")
    if "properties" in schema:
        schema["properties"] = {
            name: _structural(child, definitions) for name, child in schema["properties"].items()
        }
        if not schema.get("required"):
            schema.pop("required", None)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            schema[key] = _structural(schema[key], definitions)
    return schema


def _optional(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is not null, for an absent field is how Kubernetes says "none"."""
    options = [option for option in node["anyOf"] if option != {"type": "null"}]
    beside = {key: value for key, value in node.items() if key != "anyOf"}
    if [option.get("type") for option in options] == ["integer", "string"]:
        # the one union that Kubernetes has a word for
        merged = {key: value for option in options for key, value in option.items() if key != "type"}
        return _structural({"x-kubernetes-int-or-string": True, **merged, **beside}, definitions)
    if len(options) != 1:
        raise TypeError(f"a structural schema has no unions: {options}")
    return _structural({**options[0], **beside}, definitions)


def _column(column: Column) -> dict[str, Any]:
    manifest: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        manifest["description"] = column.description
    if column.priority:
        manifest["priority"] = column.priority
    return manifest
