from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubekit.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    ServerError,
    TooManyRequests,
    api_error,
    worth_retrying,
)
from kubekit.resources import ConfigMap, Deployment, Kind, Secret, custom, kind_of
from kubekit.wire import Applied, Bookmark, Deleted, Undecodable, decode_event, decode_page


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_one_bad_item_leaves_the_page_readable_and_says_who_it_is() -> None:
    page = decode_page(
        encoded(
            {
                "metadata": {"resourceVersion": "9", "continue": "next"},
                "items": [
                    {"metadata": {"name": "a", "namespace": "ns"}, "data": {"k": "v"}},
                    {"metadata": {"name": "b", "namespace": "ns", "uid": "u"}, "data": {"k": 1}},
                ],
            }
        ),
        ConfigMap,
    )
    good, bad = page.items
    assert isinstance(good, ConfigMap)
    assert isinstance(bad, Undecodable)
    assert bad.metadata.key == ("ns", "b")
    assert "data" in bad.error
    assert (page.resource_version, page.next_page) == ("9", "next")


def test_an_item_with_damaged_metadata_still_has_its_name() -> None:
    item = {"metadata": {"name": "b", "namespace": "ns", "labels": 3, "resourceVersion": "7"}}
    (bad,) = decode_page(encoded({"items": [item]}), ConfigMap).items
    assert isinstance(bad, Undecodable)
    assert (bad.metadata.name, bad.metadata.resource_version) == ("b", "7")


def test_invalid_utf8_in_one_item_hides_no_other() -> None:
    body = b'{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"},"data":{"k":"\xff\xfe"}}]}'
    good, bad = decode_page(body, ConfigMap).items
    assert isinstance(good, ConfigMap)
    assert isinstance(bad, Undecodable)
    assert bad.metadata.name == "b"


def test_an_empty_list_may_be_null() -> None:
    assert decode_page(b'{"metadata":{"resourceVersion":"3"},"items":null}', ConfigMap).items == []


def test_watch_lines() -> None:
    item = {"metadata": {"name": "a", "resourceVersion": "5"}}
    assert isinstance(decode_event(encoded({"type": "ADDED", "object": item}), ConfigMap), Applied)
    assert isinstance(decode_event(encoded({"type": "DELETED", "object": item}), ConfigMap), Deleted)
    assert decode_event(encoded({"type": "BOOKMARK", "object": item}), ConfigMap) == Bookmark("5")
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    with pytest.raises(Gone):
        decode_event(encoded({"type": "ERROR", "object": status}), ConfigMap)
    with pytest.raises(ServerError):
        decode_event(encoded({"type": "SHOUTED", "object": item}), ConfigMap)


@pytest.mark.parametrize(
    ("code", "reason", "expected", "retry"),
    [
        (409, "AlreadyExists", AlreadyExists, False),
        (409, "Conflict", Conflict, True),
        (410, "Gone", Gone, True),
        (403, "Forbidden", Forbidden, True),
        (422, "Invalid", Invalid, False),
        (429, "TooManyRequests", TooManyRequests, True),
        (503, "ServiceUnavailable", ServerError, True),
    ],
)
def test_a_status_becomes_the_error_to_branch_on(
    code: int, reason: str, expected: type[Exception], *, retry: bool
) -> None:
    error = api_error(code, encoded({"code": code, "reason": reason, "message": "m"}))
    assert type(error) is expected
    assert worth_retrying(error) is retry


def test_retry_after_comes_from_the_body_or_the_header() -> None:
    body = encoded({"code": 429, "details": {"retryAfterSeconds": 7}})
    assert api_error(429, body, retry_after="3").retry_after == 7
    assert api_error(429, b"slow down", retry_after="3").retry_after == 3


def test_quota_and_terminating_namespaces_are_told_apart() -> None:
    quota = api_error(403, encoded({"code": 403, "message": "exceeded quota: q, requested: storage=1Gi"}))
    ending = api_error(
        403, encoded({"code": 403, "details": {"causes": [{"reason": "NamespaceTerminating"}]}})
    )
    assert isinstance(quota, Forbidden)
    assert isinstance(ending, Forbidden)
    assert (quota.quota_exceeded, quota.namespace_terminating) == (True, False)
    assert (ending.quota_exceeded, ending.namespace_terminating) == (False, True)


def test_an_error_of_a_watch_that_is_no_status_is_still_an_error() -> None:
    with pytest.raises(ServerError, match="no more"):
        decode_event(encoded({"type": "ERROR", "object": "no more"}), ConfigMap)


@given(st.binary(max_size=200), st.integers(400, 599))
def test_any_body_of_an_error_is_borne(body: bytes, code: int) -> None:
    assert api_error(code, body).message is not None


def test_paths_of_the_api() -> None:
    assert Deployment.KIND.path() == "/apis/apps/v1/deployments"
    assert Secret.KIND.path("ns", "s") == "/api/v1/namespaces/ns/secrets/s"
    model = Kind("ai.deckhouse.io", "v1alpha1", "Model", "models", namespaced=True)
    assert model.path("ns", "m", "status").endswith("/namespaces/ns/models/m/status")
    with pytest.raises(ValueError, match="namespace"):
        Secret.KIND.path(name="s")


def test_a_manifest_of_an_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match=r"example\.org/v1 Thing"):
        kind_of({"apiVersion": "example.org/v1", "kind": "Thing"})


def test_one_kind_has_one_plural() -> None:
    custom("example.org", "v2", "Gadget", "gadgets")
    with pytest.raises(ValueError, match="already known"):
        custom("example.org", "v2", "Gadget", "gadgetries")


def test_a_secrets_values_are_not_in_its_repr() -> None:
    secret = Secret(data={"token": b"hunter2"})
    assert "hunter2" not in repr(secret)
    assert secret.data["token"] == b"hunter2"
