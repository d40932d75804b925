"""Test vectors as they are, minus the cases that a later decision overrides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "vectors"

#: id -> why the case does not hold any more
SKIPPED = {
    "dp-layers-archive": "an archive becomes one layer per weight file, not one tar (decisions: ModelPack)",
    "dp-media-index": "the chunked layout was replaced by ranges of raw layers (decisions: ModelPack)",
    "dp-digest-reread": "DMCR hashes what passes through it; no digest of a client is believed",
    "dp-workingset-8589934592": "need of memory is the planner's, not a fact of the file",
    "dp-workingset-62546338248": "need of memory is the planner's, not a fact of the file",
    "dp-meta-revision-sha": "revisions belong to the hub client, which a later issue brings",
    "dp-meta-revision-requested": "revisions belong to the hub client, which a later issue brings",
    "dp-meta-revision-default": "revisions belong to the hub client, which a later issue brings",
    "dp-meta-progress-99": "progress is the controller's",
    "dp-meta-progress-pending": "progress is the controller's",
    "dp-name-query": "where a name comes from is the gateway's",
    "dp-annotation-one-not-ready": "there are no scheduling gates: a claim that is not there holds the Pod",
    "dp-annotation-all-ready": "there are no scheduling gates: a claim that is not there holds the Pod",
    "dp-annotation-missing": "there are no scheduling gates: a claim that is not there holds the Pod",
    "dp-env-json": "digest and family are not known at admission; they stand in .ai-models/model.json",
    "dp-pvc-name": "claims are named by model and serial, not by a hash (decisions: Claims)",
    "dp-name-order": "where a name comes from is the gateway's",
    "dp-upload-no-length": "a length is only needed to account capacity, which comes with capacityLimit",
    "dp-upload-storage-error": "the store's fault is 503 with Retry-After, since trying again helps",
}


def cases(file: str, *kinds: str | None) -> list[Any]:
    """Return the cases of these kinds as pytest parameters named by their ids."""
    found = [case for case in json.loads((FOLDER / file).read_text())["cases"] if case.get("kind") in kinds]
    assert found, f"{file} has no cases of {kinds}"
    return [
        pytest.param(
            case,
            id=case["id"],
            marks=[pytest.mark.skip(reason=SKIPPED[case["id"]])] if case["id"] in SKIPPED else [],
        )
        for case in found
    ]
