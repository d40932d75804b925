"""The closed vocabularies against the collected ones, and against what the documentation explains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aiinference.api import meanings, reasons

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import StrEnum


CASES = json.loads((Path(__file__).parents[2] / "vectors" / "reasons.json").read_text())["cases"]

#: object of the collected vocabularies -> field -> our enum
FIELDS: Mapping[str, Mapping[str, type[StrEnum]]] = {
    "InferenceService": {
        "phase": reasons.OrderPhase,
        "condition-type": reasons.OrderCondition,
        "reason Planned=True": reasons.OrderReason,
        "reason Planned=False": reasons.OrderReason,
        "reason ModelResolved=False": reasons.OrderReason,
        "reason refusal before planning": reasons.OrderReason,
        "reason class admission": reasons.OrderReason,
        "reason Ready=False": reasons.OrderReason,
    },
    "InferenceServiceClass": {"phase": reasons.ClassPhase, "condition-type": reasons.ClassCondition},
    "enum": {
        "placementMode": reasons.PlacementMode,
        "sharingMode": reasons.SharingMode,
        "launchStrategy": reasons.LaunchStrategy,
        "endpointType": reasons.EndpointType,
        "exposureType": reasons.ExposureType,
        "authentication": reasons.Authentication,
        "modelScope": reasons.ModelScope,
    },
}
#: proposed in the collection and shown as another word of it
REPLACED = {"InsufficientDeviceMemory": "NoCapacity"}


def collected() -> list[tuple[type[StrEnum], str]]:
    found = []
    for case in CASES:
        enum = FIELDS.get(case["object"], {}).get(case["field"])
        if enum:
            found.append((enum, REPLACED.get(case["value"], case["value"])))
    return found


def test_every_collected_word_is_ours_too() -> None:
    known = {*FIELDS["InferenceService"], *FIELDS["InferenceServiceClass"]}
    assert {case["field"] for case in CASES if case["object"].startswith("InferenceService")} <= known
    assert len(collected()) > 40
    assert [word for enum, word in collected() if word not in set(enum)] == []


@pytest.mark.parametrize("enum", FIELDS["enum"].values(), ids=lambda enum: enum.__name__)
def test_no_word_of_spec_or_status_is_ours_alone(enum: type[StrEnum]) -> None:
    assert {str(word) for word in enum} == {word for kind, word in collected() if kind is enum}


EXPLAINED: list[tuple[Any, Any]] = [
    (reasons.ClassPhase, meanings.CLASS_PHASES),
    (reasons.ClassReason, meanings.CLASS),
    (reasons.OrderPhase, meanings.ORDER_PHASES),
    (reasons.OrderReason, meanings.ORDER),
    (reasons.StartupPhase, meanings.STARTUP),
]


@pytest.mark.parametrize(("enum", "explained"), EXPLAINED)
def test_every_word_is_explained(enum: type[StrEnum], explained: Mapping[StrEnum, Any]) -> None:
    assert set(explained) == set(enum)


def test_what_does_not_pass_by_itself_says_what_to_do() -> None:
    entries = [*meanings.CLASS.items(), *meanings.ORDER.items()]
    assert [word for word, entry in entries if entry.recovers is False and not entry.do] == []


def test_what_recovers_by_itself_agrees_with_the_collection() -> None:
    said = [case for case in CASES if case["object"] == "InferenceService" and "reason" in case["field"]]
    for case in said:
        if case["retries_on_its_own"] is not None and case["value"] not in REPLACED:
            entry = meanings.ORDER[reasons.OrderReason(case["value"])]
            assert entry.recovers is case["retries_on_its_own"], case["value"]
