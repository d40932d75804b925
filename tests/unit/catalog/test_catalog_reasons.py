from __future__ import annotations

import pytest

from aimodels.api.model import CatalogSource, ModelSource, UploadSource
from aimodels.api.reasons import ModelReason, SourceType
from aimodels.catalog import reasons
from aimodels.catalog.state import Cause
from aimodels.jobs.observed import Verdict


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://huggingface.co/BAAI/bge-m3", SourceType.HUGGING_FACE),
        ("https://hf.co/a/b", SourceType.HUGGING_FACE),
        ("https://ollama.com/library/qwen3.6:latest", SourceType.OLLAMA),
        ("http://huggingface.co/a/b", None),
        ("https://example.com/a", None),
        ("https://[broken", None),
        ("", None),
    ],
)
def test_a_url_tells_its_kind(url: str, kind: SourceType | None) -> None:
    assert reasons.source_type(ModelSource(url=url)) == kind


def test_what_is_not_served_yet_is_told_apart_from_what_is_wrong() -> None:
    later = reasons.refusal(ModelSource(url="https://huggingface.co/a/b"))
    wrong = reasons.refusal(ModelSource(url="https://example.com/a"))
    imported = reasons.refusal(ModelSource(catalog=CatalogSource(name="x")))
    assert later
    assert wrong
    assert imported
    assert {later.reason, wrong.reason, imported.reason} == {ModelReason.UNSUPPORTED_SOURCE}
    assert "does not fetch from HuggingFace sources yet" in later.message
    assert "Correct spec.source" in wrong.message
    assert reasons.refusal(ModelSource(upload=UploadSource())) is None


def test_a_workers_verdict_is_taken_word_for_word() -> None:
    cause = reasons.cause(Verdict("InsufficientStorage", "no room"))
    assert cause
    assert (cause.reason, cause.message) == (ModelReason.INSUFFICIENT_STORAGE, "no room")


def test_a_word_outside_the_vocabulary_is_a_failed_publication() -> None:
    cause = reasons.cause(Verdict("Whatever", "x"))
    assert cause
    assert cause.reason is ModelReason.PUBLICATION_FAILED


def test_without_a_reason_nothing_is_permanent() -> None:
    assert reasons.cause(Verdict("", "no answer")) is None
    assert reasons.cause(Verdict("Stalled", "")) == Cause(ModelReason.STALLED, "Stalled")
