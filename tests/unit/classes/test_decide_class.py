"""What is said about a class."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from aiinference.api.classes import InferenceServiceClass, InferenceServiceClassStatus
from aiinference.classes.decide import Observation, decide

NOW = datetime(2026, 11, 29, tzinfo=UTC)


def klass(status: InferenceServiceClassStatus | None = None, **spec: Any) -> InferenceServiceClass:
    spec.setdefault("modelPolicy", {"allowedEndpointTypes": ["Chat"]})
    metadata = {"name": "chat", "generation": 3}
    found = msgspec.convert({"metadata": metadata, "spec": spec}, InferenceServiceClass)
    return msgspec.structs.replace(found, status=status)


def said(o: Observation) -> dict[str, tuple[str, str]]:
    return {one.type: (one.status, one.reason) for one in decide(o, NOW).conditions}


def test_a_class_without_demands_is_ready() -> None:
    status = decide(Observation(klass()), NOW)
    assert status.phase == "Ready"
    assert status.observed_generation == 3
    assert said(Observation(klass())) == {"Validated": ("True", "Validated"), "Ready": ("True", "Ready")}


def test_saying_the_same_again_is_no_change() -> None:
    first = decide(Observation(klass()), NOW)
    assert decide(Observation(klass(first)), NOW + timedelta(hours=1)) == first


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"minSharePercent": 60, "maxSharePercent": 50}, "above maxSharePercent"),
        ({"allowedSharingModes": ["Dedicated"], "maxSharePercent": 50}, "Dedicated"),
    ],
)
def test_an_accelerator_policy_that_contradicts_itself_is_refused(policy: Any, words: str) -> None:
    status = decide(Observation(klass(acceleratorPolicy=policy)), NOW)
    assert status.phase == "Failed"
    for condition in status.conditions:
        assert (condition.status, condition.reason) == ("False", "AcceleratorPolicyViolation")
        assert words in condition.message


def test_the_first_priority_class_has_to_exist() -> None:
    wanted = klass(scalingPolicy={"allowedPriorityClassNames": ["high", "low"]})
    assert said(Observation(wanted, priority_classes=frozenset({"low"})))["Ready"] == (
        "False",
        "PriorityClassMissing",
    )
    assert said(Observation(wanted, priority_classes=frozenset({"high"})))["Ready"] == ("True", "Ready")


def test_a_class_none_of_whose_devices_exist_is_not_ready() -> None:
    wanted = klass(acceleratorPolicy={"allowedDeviceClasses": ["a", "b"]})
    status = decide(Observation(wanted), NOW)
    assert status.phase == "Pending"
    assert said(Observation(wanted))["Ready"] == ("False", "DeviceClassMissing")
    assert said(Observation(wanted))["Validated"] == ("True", "Validated")


def test_a_class_some_of_whose_devices_exist_is_ready_and_names_the_others() -> None:
    wanted = klass(acceleratorPolicy={"allowedDeviceClasses": ["a", "b"]})
    status = decide(Observation(wanted, device_classes=frozenset({"b"})), NOW)
    assert status.phase == "Ready"
    assert status.conditions[1].message.endswith("passed over: a.")


def test_a_class_that_falls_back_to_processors_needs_no_device() -> None:
    wanted = klass(acceleratorPolicy={"allowedDeviceClasses": ["a"], "fallback": "CPU"})
    assert said(Observation(wanted))["Ready"] == ("True", "Ready")
