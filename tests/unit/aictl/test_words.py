"""What people read about models: exact, short, and silent about what is unknown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from aictl import words
from aictl.show import table
from aimodels.api.model import ClusterModel, Model

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def _model(**status: object) -> Model:
    return msgspec.convert(
        {
            "metadata": {"name": "gemma", "namespace": "ai-demo"},
            "spec": {"source": {"upload": {}}},
            "status": status,
        },
        Model,
    )


def _condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (7199, "119m"),
        (7200, "2h"),
        (172800, "2d"),
        (864000, "10d"),
    ],
)
def test_ages_are_those_of_kubectl(seconds: int, text: str) -> None:
    assert words.age(NOW - timedelta(seconds=seconds), NOW) == text


def test_an_unknown_age_is_left_out() -> None:
    assert words.age(None, NOW) == ""


@pytest.mark.parametrize(
    ("value", "text"), [(0.04, "0.0 s"), (4.23, "4.2 s"), (43.4, "43 s"), (185, "3 min 5 s")]
)
def test_durations(value: float, text: str) -> None:
    assert words.seconds(value) == text


def test_facts_are_one_line_of_what_is_known() -> None:
    resolved = {
        "format": "GGUF",
        "family": "gemma3",
        "parameterCount": 268_098_176,
        "quantization": "Q4_K_M",
        "contextWindowTokens": 32768,
    }
    status = _model(resolved=resolved).status
    assert status
    assert words.facts(status.resolved) == "GGUF, gemma3, 268 M parameters, Q4_K_M, 32 K context"
    sparse = _model(resolved={"format": "GGUF", "contextWindowTokens": 1000}).status
    assert sparse
    assert words.facts(sparse.resolved) == "GGUF, 1000 tokens context"
    assert words.facts(None) == ""


def test_a_model_that_nobody_looked_at_has_no_words_yet() -> None:
    fresh = msgspec.convert({"metadata": {"name": "x"}, "spec": {"source": {"upload": {}}}}, ClusterModel)
    assert (words.phase(fresh), words.reason(fresh), words.message(fresh), words.progress(fresh)) == (
        "",
        "",
        "",
        "",
    )
    assert words.document(fresh) == {
        "kind": "ClusterModel",
        "name": "x",
        "phase": "",
        "reason": "",
        "message": "",
    }


def test_the_message_is_that_of_the_first_condition_that_does_not_hold() -> None:
    model = _model(
        conditions=[
            _condition("SourceChecked", "True", "SourceAccepted", "fine"),
            _condition("ArtifactResolved", "False", "PublicationFailed", "the header ends early"),
            _condition("Ready", "False", "PublicationFailed", "not ready"),
        ]
    )
    assert words.message(model) == "the header ends early"
    assert words.reason(model) == "PublicationFailed"


def test_an_obstacle_is_told_from_the_way_and_from_the_end() -> None:
    obstacles = ("StorageUnavailable", "Stalled", "Packaging", "PublicationFailed", "")
    assert [words.passes_by_itself(reason) for reason in obstacles] == [True, True, False, False, False]


def test_progress_leaves_out_what_is_unknown() -> None:
    transfer = {"stage": "Uploading", "bytes": 1 << 20, "totalBytes": 4 << 20, "bytesPerSecond": 2 << 20}
    assert words.progress(_model(progress="25%", transfer=transfer)) == "25%, 1.0 MiB of 4.0 MiB, 2.0 MiB/s"
    queued = {"stage": "Queued", "queuePosition": 3}
    assert words.progress(_model(transfer=queued)) == "place 3 in the queue"
    assert words.progress(_model(transfer={"stage": "Uploading", "bytes": 5})) == ""


def test_the_document_has_stable_keys() -> None:
    digest = f"sha256:{'0' * 64}"
    model = _model(
        phase="Ready",
        artifact={"digest": digest, "sizeBytes": 5},
        conditions=[_condition("Ready", "True", "Ready")],
        upload={"secretName": "not-shown"},
    )
    assert words.document(model) == {
        "kind": "Model",
        "namespace": "ai-demo",
        "name": "gemma",
        "phase": "Ready",
        "reason": "Ready",
        "message": "",
        "artifact": {"digest": digest, "sizeBytes": 5},
    }


def test_a_table_is_as_wide_as_its_widest_cells() -> None:
    assert table(("NAME", "SIZE"), [("a", ""), ("longer-name", "1 GiB")]) == (
        "NAME          SIZE\na\nlonger-name   1 GiB"
    )
