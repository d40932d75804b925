"""The closed vocabularies against the collected ones, and against what the documentation explains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aimodels.api import meanings
from aimodels.api.reasons import (
    ConditionType,
    DeliveryBlockedReason,
    DeliveryMode,
    DeliveryReason,
    EndpointType,
    ModelEvent,
    ModelFeature,
    ModelFormat,
    ModelReason,
    Phase,
    SourceType,
    WorkloadEvent,
)
from modelkit.facts import Confidence

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import StrEnum

    from kubekit.vocabulary import Meaning

VECTORS = Path(__file__).parents[2] / "vectors" / "reasons.json"

#: field of the collected vocabularies -> our enum; None: not a vocabulary of the catalogue or of delivery
MODEL_FIELDS: Mapping[str, type[StrEnum]] = {
    "phase": Phase,
    "condition-type": ConditionType,
    "condition-reason ArtifactResolved=True": ModelReason,
    "condition-reason ArtifactResolved=False": ModelReason,
    "condition-reason MetadataResolved=True": ModelReason,
    "condition-reason Ready=True": ModelReason,
    "condition-reason Ready=False": ModelReason,
    "failure-reason": ModelReason,
    "event": ModelEvent,
}
ENUM_FIELDS: Mapping[str, type[StrEnum]] = {
    "resolved.supportedEndpointTypes": EndpointType,
    "resolved.supportedFeatures": ModelFeature,
    "resolved.format": ModelFormat,
    "source.resolvedType": SourceType,
    "metadata confidence": Confidence,
}
WORKLOAD_FIELDS: Mapping[str, type[StrEnum]] = {
    "blocked-reason": DeliveryBlockedReason,
    "event": WorkloadEvent,
    "delivery-mode": DeliveryMode,
    "delivery-reason": DeliveryReason,
}

#: words that the collection has and a later decision replaced
REPLACED = {
    ("condition-reason Ready=False", "Failed"): "Ready carries the reason itself, as the column shows it"
}
#: words that the decisions added to the collection
DECIDED: Mapping[type[StrEnum], set[str]] = {
    ModelReason: {
        "CatalogSourceAmbiguous",
        "CatalogSourceMissing",
        "CatalogEntryNotFound",
        "CatalogEntryNotAllowed",
        "CatalogEntryChanged",
        "AuthSecretMissing",
        "StorageUnavailable",
        "InUse",
        "AccessDenied",
        "LicenceNotAccepted",
        "RevisionNotFound",
        "Downloading",
        "Packaging",
        "Verifying",
        "Stalled",
    },
    ConditionType: {"SourceChecked", "Progressing", "StorageAvailable", "EvaluationStore"},
    DeliveryBlockedReason: {"DuplicateModelName"},
    SourceType: {"Catalog"},
}
#: words of ours for conditions that hold and for a deletion on its way (ADR 0002)
OURS: Mapping[type[StrEnum], set[str]] = {
    ModelReason: {"SourceAccepted", "StorageAvailable", "EvaluationStore", "Deleting"}
}


def collected() -> list[tuple[type[StrEnum], str, str]]:
    found = []
    for case in json.loads(VECTORS.read_text())["cases"]:
        fields = _fields(case)
        if case["field"] in fields and (case["field"], case["value"]) not in REPLACED:
            found.append((fields[case["field"]], case["field"], case["value"]))
    return found


def _fields(case: dict[str, Any]) -> Mapping[str, type[StrEnum]]:
    if case["object"] == "Model/ClusterModel":
        return MODEL_FIELDS
    if case["object"].startswith("workload"):
        return WORKLOAD_FIELDS
    return ENUM_FIELDS if case["object"] == "enum" else {}


def test_every_collected_word_is_ours_too() -> None:
    assert len(collected()) > 70
    missing = [(field, word) for enum, field, word in collected() if word not in set(enum)]
    assert missing == []


@pytest.mark.parametrize(
    "enum",
    dict.fromkeys([*MODEL_FIELDS.values(), *ENUM_FIELDS.values(), *WORKLOAD_FIELDS.values()]),
    ids=lambda enum: enum.__name__,
)
def test_no_word_is_ours_alone(enum: type[StrEnum]) -> None:
    known = {word for kind, _, word in collected() if kind is enum}
    known |= DECIDED.get(enum, set()) | OURS.get(enum, set())
    assert {str(word) for word in enum} - known == set()


@pytest.mark.parametrize(
    ("enum", "explained"),
    [
        (Phase, meanings.PHASES),
        (ModelReason, meanings.MODEL),
        (DeliveryBlockedReason, meanings.BLOCKED),
        (ModelEvent, meanings.MODEL_EVENTS),
        (WorkloadEvent, meanings.WORKLOAD_EVENTS),
    ],
)
def test_every_word_is_explained(enum: type[StrEnum], explained: Mapping[StrEnum, Meaning]) -> None:
    assert set(explained) == set(enum)


def test_what_does_not_pass_by_itself_says_what_to_do() -> None:
    entries = [*meanings.MODEL.items(), *meanings.BLOCKED.items()]
    assert [word for word, entry in entries if entry.recovers is False and not entry.do] == []


def test_what_recovers_by_itself_agrees_with_the_collection() -> None:
    for case in json.loads(VECTORS.read_text())["cases"]:
        if case["field"] == "failure-reason" and case["origin"] != "reference":
            entry = meanings.MODEL[ModelReason(case["value"])]
            assert entry.recovers is case["retries_on_its_own"], case["value"]
