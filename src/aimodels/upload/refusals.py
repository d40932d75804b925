"""Every refusal of the gateway: its reason, why, and what to do next."""

from __future__ import annotations

from enum import StrEnum

from modelio.registry import (
    Denied,
    NotFound,
    RegistryError,
    RegistryUnavailable,
    SessionLost,
)
from webkit.problems import Problem

OFFSET_HEADER = "Upload-Offset"
_FULL = 507
_TOO_LARGE = 413
#: The session was voided, by a request that started over or with the whole upload, which the door tells.
_NO_SESSION = "BLOB_UPLOAD_UNKNOWN"
_AGAIN = {"retry-after": "1"}


class Reason(StrEnum):
    """The closed set of what the gateway refuses by."""

    UNAUTHORIZED = "Unauthorized"
    NOT_FOUND = "NotFound"
    METHOD_NOT_ALLOWED = "MethodNotAllowed"
    INVALID_REQUEST = "InvalidRequest"
    INVALID_FILE_NAME = "InvalidFileName"
    NOT_A_MODEL = "NotAModel"
    NOT_SERVED = "NotServed"
    OFFSET_MISMATCH = "OffsetMismatch"
    PART_MISMATCH = "PartMismatch"
    INCOMPLETE = "Incomplete"
    RECEIVED = "UploadReceived"
    TAKEN_OVER = "TakenOver"
    ENDED = "UploadEnded"
    TOO_LARGE = "TooLarge"
    STALLED = "Stalled"
    RESTARTING = "Restarting"
    TOO_MANY_REQUESTS = "TooManyRequests"
    STORAGE_UNAVAILABLE = "StorageUnavailable"
    STORAGE_FULL = "StorageFull"


def unauthorized() -> Problem:
    """Answer the same to a wrong token and to a session that does not exist."""
    return Problem(
        401,
        Reason.UNAUTHORIZED,
        "the token is not the one of this upload, or there is no such upload",
        "read url and token anew from the Secret named in the model's status.upload.secretName",
        headers={"www-authenticate": 'Bearer realm="upload"'},
    )


def not_found() -> Problem:
    """Answer where nothing is served."""
    return Problem(
        404, Reason.NOT_FOUND, "nothing is served at this path", "use the url of the upload's Secret"
    )


def method_not_allowed(allowed: str) -> Problem:
    """Answer a method that the path does not have."""
    return Problem(
        405,
        Reason.METHOD_NOT_ALLOWED,
        "this path does not take that method",
        f"use {allowed}; a file is sent by PUT, as `curl -T` does",
        headers={"allow": allowed},
    )


def invalid(message: str, next_step: str, reason: Reason = Reason.INVALID_REQUEST) -> Problem:
    """Answer a request that can never be right."""
    return Problem(400, reason, message, next_step)


def length_required() -> Problem:
    """Answer a part without a length: which bytes it holds follows from it."""
    return Problem(411, Reason.INVALID_REQUEST, "a part needs a Content-Length", "send one")


def offset_mismatch(offset: int, begins: int) -> Problem:
    """Answer a continuation that does not begin where the upload stands."""
    return Problem(
        416,
        Reason.OFFSET_MISMATCH,
        f"the upload stands at byte {offset}, and this continues at {begins}",
        "ask for Upload-Offset by HEAD and continue there, or start over without Content-Range",
        headers={OFFSET_HEADER: str(offset)},
        offset=offset,
    )


def already_received() -> Problem:
    """Answer once the whole file is here."""
    return Problem(
        409,
        Reason.RECEIVED,
        "the file of this upload has been received and is being published",
        "watch the model's status; to send another file create another model",
    )


def busy() -> Problem:
    """Answer when too many sessions that nobody has used yet are asked for at once."""
    return Problem(
        429,
        Reason.TOO_MANY_REQUESTS,
        "too many tokens are being checked",
        "try again in a moment",
        headers=_AGAIN,
    )


def ended() -> Problem:
    """Answer when the upload was received, was withdrawn or has lapsed."""
    return Problem(
        410,
        Reason.ENDED,
        "this upload is over: it was received, was withdrawn or has lapsed",
        "look at the model's status; the annotation ai.deckhouse.io/retry opens a new upload",
    )


def stalled(seconds: float) -> Problem:
    """Answer a client that fell silent."""
    return Problem(
        408,
        Reason.STALLED,
        f"nothing was received for {seconds:.0f} s",
        "ask for Upload-Offset by HEAD and continue there",
    )


def restarting() -> Problem:
    """Answer when this process is asked to end."""
    return Problem(
        503,
        Reason.RESTARTING,
        "the upload gateway restarts; what was received stays",
        "ask for Upload-Offset by HEAD in a moment and continue there",
        headers=_AGAIN,
    )


def being_taken_over() -> Problem:
    """Answer who asks where the upload stands; 409 would say there that all of it is here."""
    return Problem(
        503,
        Reason.TAKEN_OVER,
        "another request is taking this upload over right now",
        "ask again in a moment",
        headers=_AGAIN,
    )


def is_lost(error: RegistryError) -> bool:
    """Tell whether another request has taken the upload's session over, or started it anew."""
    return isinstance(error, SessionLost) or error.code == _NO_SESSION


def of_registry(error: RegistryError) -> Problem:
    """Name what the registry's answer means for the person who uploads."""
    if is_lost(error):
        return Problem(
            409,
            Reason.TAKEN_OVER,
            "a newer request has taken this upload over",
            "nothing, if that was yours; else ask for Upload-Offset by HEAD and continue there",
        )
    if isinstance(error, Denied | NotFound):
        return ended()
    if error.status == _TOO_LARGE:
        return Problem(413, Reason.TOO_LARGE, "the file is larger than the store takes", "send a smaller one")
    if isinstance(error, RegistryUnavailable) and error.status == _FULL:
        return Problem(
            507,
            Reason.STORAGE_FULL,
            "the store of models has no space left",
            "ask the administrator for space; then continue at Upload-Offset",
        )
    return Problem(
        503,
        Reason.STORAGE_UNAVAILABLE,
        "the store of models does not answer; what was received stays",
        "ask for Upload-Offset by HEAD in a moment and continue there",
        headers=_AGAIN,
    )
