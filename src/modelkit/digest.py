"""Content digests: ``sha256:<64 lower-case hex>``, the identity of every blob and manifest."""

from __future__ import annotations

import re
from hashlib import sha256

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")

#: digest of no bytes at all, which registries answer without storing it
EMPTY = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def is_digest(text: str) -> bool:
    """Say whether the text is a well-formed SHA-256 digest; upper case and other algorithms are not."""
    return _DIGEST.match(text) is not None


def of(data: bytes | bytearray | memoryview) -> str:
    """Return the digest of the bytes."""
    return "sha256:" + sha256(data).hexdigest()
