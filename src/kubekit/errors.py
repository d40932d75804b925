"""Errors of the Kubernetes API and of reconciling.

What belongs here: what callers branch on, and whether trying again helps. What does not: when to try again.

Tree::

    KubeError                   base; ``transient`` says whether the same call may succeed later
    ├── Unreachable             no answer at all: refused, cut, timed out; a write may have happened
    └── ApiError                the API server answered with ``code``, ``reason`` and a message
        ├── BadRequest          400, 405, 415
        ├── Unauthorized        401
        ├── Forbidden           403
        ├── NotFound            404
        ├── AlreadyExists       409 AlreadyExists
        ├── Conflict            409: changed since it was read, or a precondition does not hold
        ├── Gone                410: the version or page asked for is compacted away
        ├── Invalid             422: refused by a schema, a rule or an immutable field
        ├── TooManyRequests     429
        └── ServerError         5xx
    ReconcileError              base of what a reconcile raises on purpose; carries ``reason`` (a closed set)
    ├── Transient               try again with back-off, or after ``retry_after`` seconds
    ├── Permanent               trying again cannot help; wait for the object to change
    │   └── Unreadable          an object is there but has a form that this version cannot read
    └── NeedsUser               the same, and a person has to do something: the message says what
"""

from __future__ import annotations

from typing import Any

import msgspec


class KubeError(Exception):
    """Base of everything a call to the API raises."""

    transient = False
    retry_after: float | None = None


class Unreachable(KubeError):
    """The API server did not answer; whether a write was executed is unknown."""

    transient = True


class ApiError(KubeError):
    """The API server refused."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        retry_after: float | None = None,
        causes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(f"{reason or code}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.causes = causes


class BadRequest(ApiError):
    """The request itself is wrong."""


class Unauthorized(ApiError):
    """The credentials are not accepted; a rotated token is read again by the session."""

    transient = True


class Forbidden(ApiError):
    """RBAC, an admission policy, a quota or a terminating namespace refuses; the message says which."""

    transient = True

    @property
    def quota_exceeded(self) -> bool:
        """Tell whether a ResourceQuota is the cause."""
        return "exceeded quota" in self.message

    @property
    def namespace_terminating(self) -> bool:
        """Tell whether the namespace is being deleted, so that nothing can be made in it any more."""
        return "NamespaceTerminating" in self.causes or "being terminated" in self.message


class NotFound(ApiError):
    """The object, or its kind, does not exist."""


class AlreadyExists(ApiError):
    """An object of this name is there already."""


class Conflict(ApiError):
    """The object changed since it was read, or a precondition (uid, version) does not hold."""

    transient = True


class Gone(ApiError):
    """The version or the page is compacted away: list again."""

    transient = True


class Invalid(ApiError):
    """The object breaks a schema, a validation rule or an immutable field."""


class TooManyRequests(ApiError):
    """The API server asks to come back later."""

    transient = True


class ServerError(ApiError):
    """The API server, or something behind it, failed."""

    transient = True


class _Cause(msgspec.Struct):
    reason: str = ""


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: int = 0
    causes: list[_Cause] | None = None


class Status(msgspec.Struct):
    """The API's own form of an error, as an answer's body or as an ERROR event of a watch."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: BadRequest,
    409: Conflict,
    410: Gone,
    415: BadRequest,
    422: Invalid,
    429: TooManyRequests,
}
_LONGEST_MESSAGE = 2048


def api_error(code: int, body: bytes | msgspec.Raw, *, retry_after: str | None = None) -> ApiError:
    """Turn an answer into the error that callers branch on; a body of any form is borne."""
    try:
        status = msgspec.json.decode(body, type=Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = Status(message=bytes(body)[:_LONGEST_MESSAGE].decode(errors="replace"))
    code = status.code or code
    reason = status.reason
    kind = _BY_CODE.get(code) or (ServerError if code >= 500 or not code else ApiError)  # noqa: PLR2004
    if reason == "AlreadyExists":
        kind = AlreadyExists
    elif reason == "Expired":
        kind = Gone
    details = status.details or _Details()
    wait: float | None = details.retry_after_seconds or None
    if wait is None and retry_after and retry_after.isdigit():
        wait = float(retry_after)
    causes = tuple(cause.reason for cause in details.causes or ())
    return kind(code, reason, status.message[:_LONGEST_MESSAGE], retry_after=wait, causes=causes)


class ReconcileError(Exception):
    """Base of what a reconcile raises on purpose."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


class Transient(ReconcileError):
    """Something outside is not ready; the same reconcile may succeed later."""

    def __init__(self, reason: str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(reason, message)
        self.retry_after = retry_after


class Permanent(ReconcileError):
    """Repeating cannot help; the object waits for a change of itself or of what it refers to."""


class Unreadable(Permanent):
    """An object is there but has a form that this version cannot read: nothing is decided about it."""

    def __init__(self, kind: str, key: tuple[str, str], error: str) -> None:
        super().__init__("Undecodable", f"{kind} {'/'.join(filter(None, key))} cannot be read: {error}")


class NeedsUser(ReconcileError):
    """A person has to act; the message says what to do."""


def worth_retrying(error: BaseException) -> bool:
    """Tell whether the same call may succeed later."""
    return isinstance(error, Transient) or bool(getattr(error, "transient", False))


def fields_of(error: BaseException) -> dict[str, Any]:
    """Return what a log line should say about an error."""
    reason = getattr(error, "reason", "") or type(error).__name__
    return {"reason": reason, "err": error}
