"""Decoding what lists and watches say, so that one bad object never hides the others.

What belongs here: bytes to Structs, pure. What does not: requests, retries, state (``kubekit.watch``).
"""

from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from kubekit.errors import ServerError, api_error
from kubekit.resources.meta import Kind, ObjectMeta, Resource

R = TypeVar("R", bound=Resource)

_ERROR_LENGTH = 500


class Undecodable(msgspec.Struct, frozen=True, kw_only=True):
    """An object that is there but does not fit our Struct; whoever deletes by a list fails closed on it."""

    kind: Kind
    metadata: ObjectMeta
    error: str


class Page(msgspec.Struct, Generic[R], frozen=True):
    """One page of a list."""

    items: list[R | Undecodable]
    resource_version: str
    next_page: str


class Applied(msgspec.Struct, Generic[R], frozen=True):
    """An object was created or changed."""

    object: R | Undecodable


class Deleted(msgspec.Struct, Generic[R], frozen=True):
    """An object is gone; this is its last state."""

    object: R | Undecodable


class Bookmark(msgspec.Struct, frozen=True):
    """Nothing happened up to this version."""

    resource_version: str


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    next_page: str = msgspec.field(name="continue", default="")


class _RawList(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _OnlyMetadata(msgspec.Struct):
    metadata: ObjectMeta = ObjectMeta()


class _Identity(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _OnlyIdentity(msgspec.Struct):
    metadata: _Identity = msgspec.field(default_factory=_Identity)


def decode_page(body: bytes, struct: type[R]) -> Page[R]:
    """Decode a list's answer at once or, when that fails, item by item."""
    try:
        fast = msgspec.json.decode(body, type=_list_of(struct))
    except (msgspec.DecodeError, UnicodeDecodeError):
        slow = msgspec.json.decode(body, type=_RawList)
        items: list[R | Undecodable] = [decode_object(raw, struct) for raw in slow.items or ()]
        return Page(items, slow.metadata.resource_version, slow.metadata.next_page)
    return Page(fast.items or [], fast.metadata.resource_version, fast.metadata.next_page)


def decode_object(raw: bytes | msgspec.Raw, struct: type[R]) -> R | Undecodable:
    """Decode one object, or say who it is and why it does not fit."""
    try:
        return msgspec.json.decode(raw, type=struct)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Undecodable(kind=struct.KIND, metadata=_identify(raw), error=str(error)[:_ERROR_LENGTH])


def decode_event(line: bytes, struct: type[R]) -> Applied[R] | Deleted[R] | Bookmark:
    """Decode one line of a watch; an ERROR line is raised as the error it holds."""
    event = msgspec.json.decode(line, type=_Line)
    match event.type:
        case "ADDED" | "MODIFIED":
            return Applied(decode_object(event.object, struct))
        case "DELETED":
            return Deleted(decode_object(event.object, struct))
        case "BOOKMARK":
            only = msgspec.json.decode(event.object, type=_OnlyMetadata)
            return Bookmark(only.metadata.resource_version)
        case "ERROR":
            raise api_error(0, event.object)
        case other:
            raise ServerError(
                0, "UnknownWatchEvent", f"a watch sent an event of the unknown type {other[:40]!r}"
            )


def _identify(raw: bytes | msgspec.Raw) -> ObjectMeta:
    try:
        return msgspec.json.decode(raw, type=_OnlyMetadata).metadata
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    only = msgspec.json.decode(raw, type=_OnlyIdentity).metadata
    return ObjectMeta(
        name=only.name,
        namespace=only.namespace,
        uid=only.uid,
        resource_version=only.resource_version,
    )


@cache
def _list_of(struct: type[Resource]) -> Any:
    return msgspec.defstruct(
        f"{struct.__name__}List",
        [
            ("metadata", _ListMeta, msgspec.field(default_factory=_ListMeta)),
            ("items", list[struct] | None, None),  # type: ignore[valid-type]
        ],
    )
