"""What the registry answers when it refuses, in the shape of the OCI distribution specification.

Error tree::

    RegistryProblem             status, code, message, headers
    ├── Unauthorized            401 UNAUTHORIZED with WWW-Authenticate
    ├── Denied                  403 DENIED, or TRANSFER_ENDED of what was allowed before
    ├── NotFound                404 with one of the *_UNKNOWN codes
    ├── Invalid                 400 (413 where a limit is meant) with one of the *_INVALID codes
    ├── Conflict                409: another attempt owns the upload, or a blob is in use
    ├── RangeRefused            416: out of order, or behind the end
    ├── Unsupported             405 UNSUPPORTED
    └── TryAgain                503 with Retry-After: the store did not answer, or somebody else was first
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

RETRY_AFTER_SECONDS = 2


class RegistryProblem(Exception):
    """Base of every refusal; ``message`` says what, why and the next step."""

    status = 500
    code = "UNKNOWN"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int | None = None,
        detail: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Take the text and what differs from the class's status and code."""
        super().__init__(message)
        self.message = message
        self.code = code or self.code
        self.status = status or self.status
        self.detail = detail
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        """Return the JSON error document."""
        return msgspec.json.encode(
            {"errors": [{"code": self.code, "message": self.message, "detail": self.detail}]}
        )


class Unauthorized(RegistryProblem):
    """No valid identity came with the request."""

    status = 401
    code = "UNAUTHORIZED"

    def __init__(self, message: str, *, challenge: str = 'Bearer realm="dmcr"') -> None:
        """Take the text and the value of WWW-Authenticate."""
        super().__init__(message, headers={"WWW-Authenticate": challenge})


class Denied(RegistryProblem):
    """The identity is known and lacks the right."""

    status = 403
    code = "DENIED"


class NotFound(RegistryProblem):
    """Repository, manifest, blob or upload is not there (for this caller)."""

    status = 404
    code = "BLOB_UNKNOWN"


class Invalid(RegistryProblem):
    """The request contradicts the specification or a limit."""

    status = 400
    code = "DIGEST_INVALID"


class Conflict(RegistryProblem):
    """The state does not allow it now, and repeating alone does not help."""

    status = 409
    code = "BLOB_UPLOAD_INVALID"


class RangeRefused(RegistryProblem):
    """The bytes named are not the ones that may come next, or do not exist."""

    status = 416
    code = "BLOB_UPLOAD_INVALID"


class Unsupported(RegistryProblem):
    """The registry never does this."""

    status = 405
    code = "UNSUPPORTED"


class TryAgain(RegistryProblem):
    """The same request may succeed later."""

    status = 503
    code = "TOOMANYREQUESTS"

    def __init__(self, message: str) -> None:
        """Take the text; Retry-After is added."""
        super().__init__(message, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})
