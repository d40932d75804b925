from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from kubekit.crd import Column, Extras, Names, Rule, crd_manifest, structural_schema


class Colour(StrEnum):
    RED = "Red"


class Inner(msgspec.Struct, omit_defaults=True, rename="camel"):
    """An inner part."""

    some_name: str
    count: int = 0


class Outer(msgspec.Struct, omit_defaults=True):
    """An outer part."""

    inner: Inner
    maybe: Annotated[Inner | None, msgspec.Meta(description="Perhaps one.")] = None
    many: tuple[Inner, ...] = ()
    table: dict[str, int] | None = None
    colour: Colour | None = None
    word: Literal["a", "b"] = "a"
    free: dict[str, Any] | None = None
    limited: Annotated[str | None, msgspec.Meta(extra_json_schema={"maxLength": 3})] = None


def properties() -> dict[str, Any]:
    found: dict[str, Any] = structural_schema(Outer)["properties"]
    return found


def test_references_are_written_out_and_required_stays() -> None:
    inner = properties()["inner"]
    assert inner["properties"]["someName"] == {"type": "string"}
    assert inner["required"] == ["someName"]
    assert inner["properties"]["count"] == {"type": "integer", "format": "int64"}


def test_what_may_be_absent_has_no_null_and_no_default() -> None:
    assert properties()["maybe"]["type"] == "object"
    assert properties()["maybe"]["description"] == "Perhaps one."
    assert "default" not in str(structural_schema(Outer))
    assert "null" not in str(structural_schema(Outer))


def test_lists_maps_and_words_have_types() -> None:
    found = properties()
    assert found["many"]["items"]["type"] == "object"
    assert found["table"]["additionalProperties"] == {"type": "integer", "format": "int64"}
    assert found["colour"]["enum"] == ["Red"]
    assert found["colour"]["type"] == "string"
    assert found["word"] == {"enum": ["a", "b"], "type": "string"}
    assert found["limited"] == {"type": "string", "maxLength": 3}


def test_a_number_or_a_text_is_the_one_union_that_kubernetes_has() -> None:
    class Sized(msgspec.Struct):
        size: Annotated[int | str, msgspec.Meta(extra_json_schema={"maxLength": 3})]
        maybe: int | str | None = None

    assert structural_schema(Sized)["properties"] == {
        "size": {"x-kubernetes-int-or-string": True, "maxLength": 3},
        "maybe": {"x-kubernetes-int-or-string": True},
    }


def test_a_union_is_refused_where_it_is_declared() -> None:
    class Bad(msgspec.Struct):
        either: str | list[str]

    with pytest.raises(TypeError, match="no unions"):
        structural_schema(Bad)


def test_a_definition_says_names_columns_and_rules() -> None:
    names = Names("example.com", "Thing", "things", "thing", "Cluster", ("all",), ("th",))
    made = crd_manifest(
        {"spec": Outer},
        names,
        "v1",
        description="A thing.",
        columns=[Column("A", ".a"), Column("B", ".b", "date", "When.", 1)],
        rules=[
            Rule("self.a == 1", "say one", ".a"),
            Rule("true", "never"),
            Rule("true", "n", ".metadata.name"),
        ],
        extras=Extras({"l": "1"}, {"a": "2"}),
    )
    assert made["metadata"] == {"name": "things.example.com", "labels": {"l": "1"}, "annotations": {"a": "2"}}
    assert made["spec"]["names"]["shortNames"] == ["th"]
    (version,) = made["spec"]["versions"]
    assert version["additionalPrinterColumns"] == [
        {"name": "A", "type": "string", "jsonPath": ".a"},
        {"name": "B", "type": "date", "jsonPath": ".b", "description": "When.", "priority": 1},
    ]
    assert version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] == [
        {"rule": "self.a == 1", "message": "say one", "fieldPath": ".a"},
        {"rule": "true", "message": "never"},
        {"rule": "true", "message": "n", "fieldPath": ".metadata.name"},
    ]
    metadata = version["schema"]["openAPIV3Schema"]["properties"]["metadata"]
    assert metadata == {"type": "object", "properties": {"name": {"type": "string"}}}
    assert version["subresources"] == {"status": {}}
