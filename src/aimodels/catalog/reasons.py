"""Reasons that the catalogue gives, and what it says with them.

What belongs here: texts and the way from others' words to ours. What does not: when they apply (``decide``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aimodels.api.model import RETRY_ANNOTATION
from aimodels.api.reasons import ModelReason, SourceType
from aimodels.catalog.state import Cause

if TYPE_CHECKING:
    from aimodels.api.model import ModelSource
    from aimodels.jobs.observed import Verdict

RETRY_HINT = f"Correct it, then set the annotation {RETRY_ANNOTATION} to a new value (aictl retry)."

#: failures after which the uploaded bytes are still good, so that a retry publishes them again
BYTES_STAY = frozenset({ModelReason.INSUFFICIENT_STORAGE, ModelReason.STALLED, ModelReason.MANIFEST_INVALID})

_HOSTS = {
    "huggingface.co": SourceType.HUGGING_FACE,
    "www.huggingface.co": SourceType.HUGGING_FACE,
    "hf.co": SourceType.HUGGING_FACE,
    "ollama.com": SourceType.OLLAMA,
    "www.ollama.com": SourceType.OLLAMA,
}


def source_type(source: ModelSource) -> SourceType | None:
    """Return what kind of source is meant, or None when the URL is of no known kind."""
    if source.upload is not None:
        return SourceType.UPLOAD
    if source.catalog is not None:
        return SourceType.CATALOG
    try:
        parts = urlsplit(source.url or "")
    except ValueError:
        return None
    return _HOSTS.get(parts.hostname or "") if parts.scheme == "https" else None


def refusal(source: ModelSource) -> Cause | None:
    """Return why the source is not served, or None when it is."""
    kind = source_type(source)
    if kind is SourceType.UPLOAD:
        return None
    if kind is None:
        return Cause(
            ModelReason.UNSUPPORTED_SOURCE,
            "The URL is none of https://huggingface.co/<owner>/<repository> and "
            "https://ollama.com/library/<name>[:tag]. Correct spec.source.",
        )
    return Cause(
        ModelReason.UNSUPPORTED_SOURCE,
        f"This version of the module does not fetch from {kind} sources yet; a newer one looks at the model "
        "again by itself. Until then give spec.source.upload and upload the file.",
    )


def cause(verdict: Verdict) -> Cause | None:
    """Return the permanent reason that a worker left, or None when there is none.

    One that is not in the vocabulary is shown as PublicationFailed with its text.
    """
    if not verdict.reason:
        return None
    try:
        reason = ModelReason(verdict.reason)
    except ValueError:
        reason = ModelReason.PUBLICATION_FAILED
    return Cause(reason, verdict.message or verdict.reason)
