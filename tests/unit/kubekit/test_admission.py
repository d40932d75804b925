from __future__ import annotations

import base64
import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubekit import admission

KEYS = st.text("ab/~0", max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab/~", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab/~0", max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=5)


def applied(document: Any, operations: list[dict[str, Any]]) -> Any:
    """Apply a JSON patch by the letter of RFC 6902, as far as we write it."""
    document = copy.deepcopy(document)
    for operation in operations:
        *parents, last = [
            step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]
        ]
        place = document
        for step in parents:
            place = place[int(step)] if isinstance(place, list) else place[step]
        match operation["op"], place:
            case "add", list():
                assert last == "-"
                place.append(operation["value"])
            case "add", dict():
                assert last not in place
                place[last] = operation["value"]
            case "replace", list():
                place[int(last)] = operation["value"]
            case "replace", dict():
                assert last in place
                place[last] = operation["value"]
            case "remove", dict():
                del place[last]
    return document


@given(OBJECTS, OBJECTS)
def test_a_patch_makes_the_new_object_of_the_old_one(old: dict[str, Any], new: dict[str, Any]) -> None:
    made = applied(old, admission.json_patch(old, new))
    assert msgspec.json.encode(made, order="sorted") == msgspec.json.encode(new, order="sorted")


@given(OBJECTS)
def test_nothing_to_change_is_no_patch(document: dict[str, Any]) -> None:
    assert admission.json_patch(document, document) == []


def test_what_is_added_at_the_end_of_a_list_leaves_the_rest_alone() -> None:
    old = {"volumes": [{"name": "a"}]}
    new = {"volumes": [{"name": "a"}, {"name": "b"}]}
    assert admission.json_patch(old, new) == [{"op": "add", "path": "/volumes/-", "value": {"name": "b"}}]


def test_names_with_slashes_are_escaped() -> None:
    assert admission.json_patch({}, {"a/b~c": 1}) == [{"op": "add", "path": "/a~1b~0c", "value": 1}]


REVIEW: dict[str, Any] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u1",
        "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
        "operation": "CREATE",
        "namespace": "team",
        "userInfo": {"username": "jane", "groups": ["g"]},
        "object": {"metadata": {"name": "app"}},
        "oldObject": None,
        "somethingNew": {},
    },
}


def test_a_review_is_decoded() -> None:
    request = admission.decode(msgspec.json.encode(REVIEW))
    assert (request.uid, request.operation, request.namespace) == ("u1", "CREATE", "team")
    assert request.kind.kind == "Deployment"
    assert request.user_info.username == "jane"
    assert request.object == {"metadata": {"name": "app"}}
    assert request.old_object is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        msgspec.json.encode(REVIEW | {"kind": "Pod"}),
        msgspec.json.encode(REVIEW | {"apiVersion": "admission.k8s.io/v1beta1"}),
        msgspec.json.encode(REVIEW | {"request": {}}),
    ],
)
def test_what_is_no_review_is_refused(body: bytes) -> None:
    with pytest.raises(admission.BadReview):
        admission.decode(body)


def test_answers_carry_the_requests_uid_and_the_patch() -> None:
    plain = msgspec.json.decode(admission.allow("u1"))
    assert plain["response"] == {"uid": "u1", "allowed": True}

    patched = msgspec.json.decode(admission.allow("u1", [{"op": "remove", "path": "/a"}], ["careful"]))
    assert patched["response"]["patchType"] == "JSONPatch"
    assert base64.b64decode(patched["response"]["patch"]) == b'[{"op":"remove","path":"/a"}]'
    assert patched["response"]["warnings"] == ["careful"]
