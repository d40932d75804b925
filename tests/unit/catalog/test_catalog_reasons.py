from __future__ import annotations

import json

import pytest

from aimodels.api.model import CatalogSource, ModelSource, UploadSource
from aimodels.api.reasons import ModelReason, SourceType
from aimodels.catalog import reasons


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
    cause = reasons.verdict(json.dumps({"reason": "InsufficientStorage", "message": "no room"}))
    assert cause
    assert (cause.reason, cause.message) == (ModelReason.INSUFFICIENT_STORAGE, "no room")


def test_a_word_outside_the_vocabulary_is_a_failed_publication() -> None:
    cause = reasons.verdict('{"reason": "Whatever", "message": "x"}')
    assert cause
    assert cause.reason is ModelReason.PUBLICATION_FAILED


@pytest.mark.parametrize("text", ["", "killed", "[]", '{"message": "only"}', '{"reason": 5}', "\ud800"])
def test_what_is_no_verdict_is_none(text: str) -> None:
    assert reasons.verdict(text) is None


def test_a_long_text_is_cut() -> None:
    cause = reasons.verdict(json.dumps({"reason": "PublicationFailed", "message": "x" * 4000}))
    assert cause
    assert len(cause.message) == 1024
