"""Where Jobs run: what is taken, what is refused and with which words, and what a Pod gets of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aimodels.processes.settings import ControllerSettings
from kubekit.placement import Placement
from opskit.settings import SettingsError, load

NEEDED = {"AI_MODELS_IMAGE": "i"}


def given(**variables: Any) -> ControllerSettings:
    """Return the controller's settings with these variables, written as JSON."""
    environment = {f"AI_MODELS_{name.upper()}": json.dumps(value) for name, value in variables.items()}
    return load(ControllerSettings, NEEDED | environment, "AI_MODELS_")


def test_a_pod_gets_what_was_given_and_nothing_where_nothing_was() -> None:
    labels = {"node-role.kubernetes.io/models": "", "pool": "a_b.c-1"}
    tolerations = [
        {"operator": "Exists"},
        {"key": "dedicated", "value": "models", "effect": "NoSchedule"},
        {"key": "x.example.com/y", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
    ]
    found = given(node_selector=labels, tolerations=tolerations)
    placement = Placement(found.node_selector, found.tolerations)
    assert placement.fields() == {"nodeSelector": labels, "tolerations": tolerations}
    nothing = given(node_selector={}, tolerations=[])
    assert Placement(nothing.node_selector, nothing.tolerations).fields() == {}


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"node_selector": {"not a key": ""}}, "'not a key' in the node selector is no key of a label"),
        ({"node_selector": {"a/b/c": ""}}, "no key of a label"),
        ({"node_selector": {"A.com/b": ""}}, "no key of a label"),
        ({"node_selector": {"k" * 64: ""}}, "no key of a label"),
        ({"node_selector": {"a": "v" * 64}}, "no value of a label"),
        ({"node_selector": {"a": "-v"}}, "no value of a label"),
        ({"node_selector": {f"k{n}": "" for n in range(17)}}, "17 labels in the node selector; at most 16"),
        ({"node_selector": {"a": 1}}, "AI_MODELS_NODE_SELECTOR"),
        ({"node_selector": ["a"]}, "AI_MODELS_NODE_SELECTOR"),
        ({"tolerations": [{"key": "a", "effect": "Never"}]}, "AI_MODELS_TOLERATIONS"),
        ({"tolerations": [{"keys": "a"}]}, "AI_MODELS_TOLERATIONS"),
        ({"tolerations": {"key": "a"}}, "AI_MODELS_TOLERATIONS"),
        ({"tolerations": [{"key": "a b"}]}, "'a b' is no key of a taint"),
        ({"tolerations": [{"value": "x"}]}, "a toleration without a key has to have the operator Exists"),
        ({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}, "has no value"),
        ({"tolerations": [{"key": "a", "value": "b c"}]}, "no value of a taint"),
        ({"tolerations": [{"key": "a", "tolerationSeconds": 5}]}, "tolerationSeconds go with"),
        ({"tolerations": [{"operator": "Exists"}] * 33}, "33 tolerations; at most 32"),
    ],
)
def test_what_no_pod_could_have_is_refused_at_the_start(variables: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as refused:
        given(**variables)
    assert words in str(refused.value)


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(SettingsError, match="AI_MODELS_TOLERATIONS"):
        load(ControllerSettings, NEEDED | {"AI_MODELS_TOLERATIONS": "a,b"}, "AI_MODELS_")
