"""The admission protocol: reviews decoded, answers and JSON patches made.

What belongs here: the wire form of ``admission.k8s.io/v1``. What does not: what is admitted or changed.
"""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec


class BadReview(Exception):
    """The body is not an AdmissionReview; the text says what is wrong with it."""


class UserInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who sent the request, as the API server authenticated it."""

    username: str = ""
    uid: str = ""
    groups: list[str] = []


class GroupVersionKind(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A kind of the API."""

    group: str = ""
    version: str = ""
    kind: str = ""


class Request(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is asked: an operation on one object; the objects are as they were sent."""

    uid: str
    kind: GroupVersionKind
    operation: str
    name: str = ""
    namespace: str = ""
    user_info: UserInfo = UserInfo()
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool | None = None


class _Review(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str
    kind: str
    request: Request


_DECODER = msgspec.json.Decoder(_Review)
_API_VERSION = "admission.k8s.io/v1"


def decode(body: bytes) -> Request:
    """Return the request of an AdmissionReview, or raise BadReview."""
    try:
        review = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadReview(f"the body is not an AdmissionReview: {error}") from error
    if review.kind != "AdmissionReview" or review.api_version != _API_VERSION:
        raise BadReview(f"{review.api_version} {review.kind} is not an AdmissionReview of {_API_VERSION}")
    return review.request


def allow(uid: str, patch: list[dict[str, Any]] | None = None, warnings: list[str] | None = None) -> bytes:
    """Return the answer that lets the request pass, changed by the JSON patch."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(patch)).decode()}
    if warnings:
        response["warnings"] = warnings
    return msgspec.json.encode({"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": response})


def json_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the operations that make ``new`` of ``old`` (RFC 6902).

    Mappings are compared field by field; lists are replaced as a whole when they differ, unless only their
    members at equal positions changed or members were added at the end.
    """
    return list(_difference("", old, new))


def _difference(path: str, old: Any, new: Any) -> list[dict[str, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return _mapping_difference(path, old, new)
    if isinstance(old, list) and isinstance(new, list) and len(new) >= len(old):
        return _list_difference(path, old, new)
    if old == new and type(old) is type(new):
        return []
    return [{"op": "replace", "path": path, "value": new}]


def _mapping_difference(path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[dict[str, Any]]:
    operations: list[dict[str, Any]] = []
    for key in old:
        place = f"{path}/{_escaped(key)}"
        if key not in new:
            operations.append({"op": "remove", "path": place})
        else:
            operations += _difference(place, old[key], new[key])
    operations += [
        {"op": "add", "path": f"{path}/{_escaped(key)}", "value": value}
        for key, value in new.items()
        if key not in old
    ]
    return operations


def _list_difference(path: str, old: list[Any], new: list[Any]) -> list[dict[str, Any]]:
    operations: list[dict[str, Any]] = []
    for place, item in enumerate(old):
        operations += _difference(f"{path}/{place}", item, new[place])
    return operations + [{"op": "add", "path": f"{path}/-", "value": item} for item in new[len(old) :]]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
