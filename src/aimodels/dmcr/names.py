"""Names on the wire: repositories, tags, digests. Everything here comes from outside."""

from __future__ import annotations

import re

from aimodels.dmcr.problems import Invalid

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*\Z")
_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}\Z")
_DIGEST = re.compile(r"(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})\Z")
#: host and name together are what clients accept up to 255; keys of the store may be longer
REPOSITORY_LENGTH = 255


def repository(text: str) -> str:
    """Return the repository's name, or refuse it."""
    if len(text) > REPOSITORY_LENGTH or not _REPOSITORY.match(text):
        raise Invalid(
            "the repository's name is not one: lower case, digits, and . _ - / between", code="NAME_INVALID"
        )
    return text


def digest(text: str) -> str:
    """Return the digest, or refuse it."""
    if not _DIGEST.match(text):
        raise Invalid("the digest is neither sha256:<64 hex> nor sha512:<128 hex>")
    return text


def is_digest(text: str) -> bool:
    """Tell whether a reference is meant as a digest: a tag has no colon."""
    return ":" in text


def tag(text: str) -> str:
    """Return the tag, or refuse it."""
    if not _TAG.match(text):
        raise Invalid(
            "a tag has at most 128 characters out of letters, digits and . _ -", code="MANIFEST_INVALID"
        )
    return text
