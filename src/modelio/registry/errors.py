"""What can go wrong between us and a registry, and whether trying again can help.

What belongs here: the error tree and the mapping of HTTP answers onto it. What does not: retrying.

Error tree::

    RegistryError               base; ``retriable``, ``status``, ``code``, ``retry_after``
    ├── RegistryUnavailable     no connection, a time-out, 429 and 5xx: the same call may succeed later
    │   └── TransferStalled     connected, but no byte moved for the stall time
    ├── NotAuthorised           401: no grant, or one that the registry does not accept
    ├── Denied                  403: known, and not allowed
    │   └── TransferEnded       the transfer was revoked or has lapsed
    ├── NotFound                404: no such repository, manifest, blob, session or transfer
    ├── SessionLost             409 and 416: the upload session is elsewhere or belongs to a newer attempt
    ├── DigestMismatch          the bytes are not the ones that the digest names
    ├── Refused                 any other 4xx: the request itself is wrong
    ├── ProtocolViolation       the answer breaks the protocol
    └── TokenFileUnreadable     the projected token is not there (yet)
"""

from __future__ import annotations

import contextlib

import msgspec

from modelio.wire import TRANSFER_ENDED


class RegistryError(Exception):
    """Base of everything the client raises; ``retriable`` says whether the same call may succeed later."""

    retriable = False

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after


class RegistryUnavailable(RegistryError):
    """No answer, or one that says "later"; whether a write happened is unknown."""

    retriable = True


class TransferStalled(RegistryUnavailable):
    """The connection stands but no byte moved for the stall time."""


class NotAuthorised(RegistryError):
    """The registry does not accept the grant, or did not give one."""


class Denied(RegistryError):
    """The registry knows who asks and refuses."""


class TransferEnded(Denied):
    """The transfer that is asked for is over; ``token_hash`` tells who may learn that, where it has one.

    ``revoked``: for good. One that lapsed is alive again when the catalogue allows it anew.
    """

    token_hash: str | None = None
    revoked: bool = False


class NotFound(RegistryError):
    """The named thing does not exist for this grant."""


class SessionLost(RegistryError):
    """The upload session has another offset or belongs to a newer attempt."""


class DigestMismatch(RegistryError):
    """The bytes do not have the digest they were named by."""


class Refused(RegistryError):
    """The registry says that the request itself is wrong."""


class ProtocolViolation(RegistryError):
    """The registry's answer is not what the protocol allows here."""


class TokenFileUnreadable(RegistryError):
    """The projected token cannot be read; the kubelet may not have written it yet."""

    retriable = True


class _Detail(msgspec.Struct, rename="camel"):
    token_hash: str | None = None
    revoked: bool = False


class _OciError(msgspec.Struct):
    code: str = ""
    message: str = ""


class _EndedError(msgspec.Struct):
    detail: _Detail


class _EndedBody(msgspec.Struct):
    errors: list[_EndedError]


class _ErrorBody(msgspec.Struct, rename="camel"):
    errors: list[_OciError] = msgspec.field(default_factory=list)
    reason: str = ""
    message: str = ""
    next_step: str = ""


def from_answer(
    method: str, path: str, status: int, body: bytes, retry_after: str | None = None
) -> RegistryError:
    """Return the error that an HTTP answer stands for; up to 500 of the server's own words are kept."""
    if status < 400:  # noqa: PLR2004 (HTTP's own number)
        return ProtocolViolation(f"{method} {path} was answered {status}, which says nothing here")
    code, said = _server_words(body)
    text = f"{method} {path} was answered {status}" + (f": {said}" if said else "")
    if code == "DIGEST_INVALID":
        return DigestMismatch(text, status=status, code=code)
    if code == TRANSFER_ENDED:
        return _ended(text, status, body)
    if status in {408, 425, 429} or status >= 500:  # noqa: PLR2004 (HTTP's own numbers)
        return RegistryUnavailable(text, status=status, code=code, retry_after=_seconds(retry_after))
    kinds = {401: NotAuthorised, 403: Denied, 404: NotFound, 409: SessionLost, 416: SessionLost}
    return kinds.get(status, Refused)(text, status=status, code=code)


def _ended(text: str, status: int, body: bytes) -> TransferEnded:
    error = TransferEnded(text, status=status, code=TRANSFER_ENDED)
    with contextlib.suppress(msgspec.DecodeError, IndexError):
        detail = msgspec.json.decode(body, type=_EndedBody).errors[0].detail
        error.token_hash, error.revoked = detail.token_hash, detail.revoked
    return error


def _server_words(body: bytes) -> tuple[str | None, str]:
    try:
        decoded = msgspec.json.decode(body, type=_ErrorBody)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None, body[:200].decode("utf-8", "replace").strip()
    if decoded.errors:
        first = decoded.errors[0]
        return first.code or None, f"{first.code} {first.message}".strip()[:500]
    said = " ".join(part for part in (decoded.reason, decoded.message, decoded.next_step) if part)
    return decoded.reason or None, said[:500]


def _seconds(retry_after: str | None) -> float | None:
    """Read Retry-After in seconds; the date form is left to the caller's own back-off."""
    try:
        return min(max(float(retry_after), 0.0), 3600.0) if retry_after else None
    except ValueError:
        return None
