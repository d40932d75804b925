from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aiinference.workload import frozen, names, statefulset
from aiinference.workload.intent import Intent, Served, Settings, Upkeep
from tests.kit import orders

OLD, NEW = Settings(gate_image="gate:old"), Settings(gate_image="gate:new", grace_seconds=60)


def _made(intent: Intent, settings: Settings, current: dict[str, str] | None = None) -> dict[str, Any]:
    return statefulset.stateful_set(intent, settings, current)


def _gate_image(made: dict[str, Any]) -> str:
    return str(made["spec"]["template"]["spec"]["initContainers"][0]["image"])


def _annotations(made: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = made["metadata"]["annotations"]
    return found


def test_a_newer_gate_or_setting_leaves_a_running_template_as_it_is() -> None:
    before = _made(orders.intent(), OLD)
    after = _made(orders.intent(), NEW, _annotations(before))
    assert after == before
    assert _made(orders.intent(), NEW, _annotations(after)) == before


def test_a_newer_recipe_or_image_leaves_a_running_template_as_it_is() -> None:
    before = _made(orders.intent(), OLD)
    newer = orders.plan(digest=f"sha256:{'2' * 64}", recipe={"image": "registry.example/llama:2"})
    after = _made(orders.intent(plan=newer), NEW, _annotations(before))
    assert after == before
    assert _annotations(after)[names.PLAN_ANNOTATION] == orders.DIGEST


def test_a_new_bound_of_the_start_starts_nothing_again() -> None:
    before = _made(orders.intent(), OLD)
    assert _made(orders.intent(startup_seconds=900), OLD, _annotations(before)) == before


def test_scaling_and_strategy_are_no_part_of_the_template() -> None:
    before = _made(orders.intent(), OLD)
    wanted = orders.intent(replicas=3, policy=orders.policy(update_strategy="OnDelete"))
    after = _made(wanted, NEW, _annotations(before))
    assert after["spec"]["template"] == before["spec"]["template"]
    assert (after["spec"]["replicas"], after["spec"]["updateStrategy"]["type"]) == (3, "OnDelete")


def _upkeep(current: dict[str, str], **changes: Any) -> Upkeep:
    fields = {name: getattr(orders.intent(), name) for name in Served.__dataclass_fields__} | changes
    return Upkeep(**fields, noted=current, template=frozen.template(current), closed=False)


def test_what_is_kept_up_is_what_was_made_whatever_the_order_says_now() -> None:
    before = _made(orders.intent(), OLD)
    current = _annotations(before) | {"ai.deckhouse.io/model-delivery": "of somebody else"}
    other = orders.order(kind="ClusterModel", annotations={names.UPGRADE_ANNOTATION: "1"})
    assert statefulset.kept(_upkeep(current, order=other)) == before
    scaled = statefulset.kept(_upkeep(current, replicas=3))
    assert scaled is not None
    assert scaled["spec"]["replicas"] == 3
    assert statefulset.kept(_upkeep(current | {names.TEMPLATE_ANNOTATION: "{"})) is None


def test_a_record_is_trusted_by_its_digest_alone() -> None:
    current = _annotations(_made(orders.intent(), OLD))
    known = {frozen.digest(current)}
    assert frozen.trusted(current, known) is current
    assert frozen.trusted(current | {"of": "somebody else"}, known) is not None
    for name in (
        *(names.TEMPLATE_ANNOTATION, names.LAUNCH_ANNOTATION, names.PLAN_ANNOTATION),
        *(names.MODEL_ANNOTATION, names.CLUSTER_MODEL_ANNOTATION),
    ):
        assert frozen.trusted(current | {name: "made up"}, known) is None, name
    assert frozen.trusted(current, frozenset()) is None


CHANGES: dict[str, Intent] = {
    "another question to the planner": orders.intent(
        asked="sha256:other", plan=orders.plan(digest=f"sha256:{'2' * 64}")
    ),
    "another API": orders.intent(endpoint_type="Embeddings"),
    "no keys any more": orders.intent(policy=orders.policy(exposure=orders.exposure(authentication="None"))),
    "clients that come by themselves and say nothing of others": orders.intent(
        policy=orders.policy(exposure=orders.exposure("ClusterLocal", mode=None)), host=None
    ),
    "another priority": orders.intent(policy=orders.policy(priority_class="high")),
    "an upgrade that was asked for": orders.intent(
        order=orders.order(annotations={names.UPGRADE_ANNOTATION: "1"})
    ),
}


@pytest.mark.parametrize("wanted", CHANGES.values(), ids=CHANGES.keys())
def test_what_an_order_or_its_class_says_renders_anew(wanted: Intent) -> None:
    before = _made(orders.intent(), OLD)
    after = _made(wanted, NEW, _annotations(before))
    assert _gate_image(after) == "gate:new"
    assert _annotations(after)[names.LAUNCH_ANNOTATION] != _annotations(before)[names.LAUNCH_ANNOTATION]
    assert after == _made(wanted, NEW)


@pytest.mark.parametrize("broken", ["", "{", "[]", "null", '{"spec": {}}', "x" * (129 << 10)])
def test_a_kept_template_that_cannot_be_used_is_made_anew(broken: str) -> None:
    current = _annotations(_made(orders.intent(), OLD)) | {names.TEMPLATE_ANNOTATION: broken}
    assert _made(orders.intent(), NEW, current) == _made(orders.intent(), NEW)


def test_the_digest_of_a_launch_is_the_same_in_every_process() -> None:
    assert frozen.launch_digest(orders.intent()) == (
        "sha256:89b08eec3e3519d6efbc367816051a4289d617f832b884adf9bec1a2cc4a9d8f"
    )
    assert frozen.launch_digest(replace(orders.intent(), host=None, replicas=7)) == frozen.launch_digest(
        orders.intent()
    )
