"""The building blocks of this API's fields: what a field means, and what the API server lets through.

What belongs here: types that both kinds use. What does not: any single kind. Constraints are the CRD's; the
Structs themselves read plain strings and numbers, so that a newer object still decodes.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from aiinference.api import quantities
from kubekit.conditions import Condition

GROUP: Final = "ai.deckhouse.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

NAME_LIMIT: Final = 253
LABEL_LIMIT: Final = 63


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all parts: what is unknown is absent."""


def field(description: str, **schema: Any) -> Meta:
    """Describe a field, with what else the API server shall hold it to."""
    return Meta(description=description, extra_json_schema=schema or None)


def words(description: str, closed: Iterable[StrEnum]) -> Meta:
    """Describe a field that takes the words of a closed set."""
    return field(description, enum=[str(word) for word in closed])


def some(description: str, most: int, *, empty: str | None = None) -> Meta:
    """Describe a list that has each member once; ``empty`` is said of one without members."""
    rules = rule("self.size() > 0", empty) if empty else {}
    return field(description, maxItems=most, **{"x-kubernetes-list-type": "set"}, **rules)


def rule(expression: str, message: str) -> dict[str, Any]:
    """Return the schema's entry for one CEL rule on the node that it is given to."""
    return {"x-kubernetes-validations": [{"rule": expression, "message": message}]}


def text(limit: int) -> dict[str, Any]:
    """Return the schema's entry for a text with characters in it."""
    return {"minLength": 1, "maxLength": limit}


Count = Annotated[int, Meta(extra_json_schema={"minimum": 0})]
Positive = Annotated[int, Meta(extra_json_schema={"minimum": 1})]
Percent = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": 100})]
Time = Annotated[datetime, Meta(extra_json_schema={"format": "date-time"})]
Sentence = Annotated[str, Meta(extra_json_schema={"maxLength": 1024})]
Url = Annotated[str, Meta(extra_json_schema={"maxLength": 2048})]
ObjectName = Annotated[
    str, Meta(extra_json_schema=text(NAME_LIMIT) | {"pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"})
]
ParameterCount = Annotated[
    int | str,
    Meta(
        extra_json_schema={"maximum": quantities.MOST, "maxLength": quantities.LENGTH}
        | rule(
            f"type(self) == int ? self > 0 : self.matches('{quantities.PATTERN}')",
            "this is no number of parameters; write it like 70B, 1.5B or 360M, or in full",
        )
    ),
]
Conditions = Annotated[
    tuple[Condition, ...],
    field(
        "What is said about the object.",
        maxItems=16,
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]
