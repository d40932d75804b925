"""The CRDs as files: structural, bounded everywhere, and no obstacle to a newer object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml

from aiinference.api.classes import InferenceServiceClass
from aiinference.api.crds import crds
from aiinference.api.orders import InferenceService
from aiinference.api.reasons import Authentication, Fallback, LaunchStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from nodes(node[key], f"{path}[]")


def schema(crd: dict[str, Any]) -> dict[str, Any]:
    (version,) = crd["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


@pytest.fixture(params=crds(), ids=lambda crd: crd["spec"]["names"]["kind"])
def crd(request: pytest.FixtureRequest) -> dict[str, Any]:
    made: dict[str, Any] = request.param
    return made


def test_the_chart_keeps_the_definitions_when_it_goes(crd: dict[str, Any]) -> None:
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert crd["metadata"]["labels"] == {"heritage": "deckhouse", "module": "ai-inference"}
    assert "{{" not in yaml.safe_dump(crd)


def test_schemas_are_structural(crd: dict[str, Any]) -> None:
    for path, node in nodes(schema(crd)):
        assert ("type" in node) != ("x-kubernetes-int-or-string" in node), path
        assert not node.keys() & {"$ref", "anyOf", "allOf", "oneOf", "not", "default", "title"}, path


def test_nothing_that_a_person_writes_is_without_bounds(crd: dict[str, Any]) -> None:
    for path, node in nodes(schema(crd)["properties"]["spec"]):
        assert _bounded(node), path
        assert "additionalProperties" not in node, path


def _bounded(node: dict[str, Any]) -> bool:
    wanted = {"string": {"maxLength", "enum"}, "array": {"maxItems"}, "integer": {"maximum"}}
    if "x-kubernetes-int-or-string" in node:
        return {"maxLength", "maximum"} <= node.keys()
    return node["type"] not in wanted or bool(wanted[node["type"]] & node.keys())


def test_every_rule_says_what_why_and_what_to_do(crd: dict[str, Any]) -> None:
    rules = [rule for _, node in nodes(schema(crd)) for rule in node.get("x-kubernetes-validations", [])]
    assert len(rules) > 8
    for rule in rules:
        message = rule["message"]
        assert "; " in message, message
        assert len(message) < 300, message


def test_an_order_with_words_of_the_future_still_decodes() -> None:
    body = {
        "metadata": {"name": "o"},
        "spec": {"model": {"src": "Torrent", "ref": {"name": "m"}, "parameterCount": 7}, "replicas": 3},
        "status": {"phase": "Dreaming", "resolved": {"acceleratorMemoryGiB": 24}, "more": 1},
    }
    order = msgspec.json.decode(msgspec.json.encode(body), type=InferenceService)
    assert (order.spec.model.src, order.spec.model.parameter_count) == ("Torrent", 7)
    assert order.spec.launch_strategy == LaunchStrategy.LATENCY
    assert order.status
    assert order.status.resolved
    assert order.status.resolved.accelerator_memory_gib == 24


def test_a_class_reads_what_is_left_out_as_its_fields_say() -> None:
    body = {
        "metadata": {"name": "c"},
        "spec": {"exposurePolicy": {"type": "External"}, "acceleratorPolicy": {}},
    }
    made = msgspec.json.decode(msgspec.json.encode(body), type=InferenceServiceClass)
    assert made.spec.model_policy.allowed_endpoint_types == ()
    assert made.spec.exposure_policy
    assert made.spec.exposure_policy.authentication == Authentication.TOKEN
    assert made.spec.accelerator_policy
    assert made.spec.accelerator_policy.fallback == Fallback.NONE
    assert made.spec.accelerator_policy.max_accelerator_count == 1
