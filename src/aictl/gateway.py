"""What the upload gateway's answers mean to who sends: what may pass, what is over, what is refused.

What belongs here: the gateway's words. What does not: what is done about them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from aictl.exits import Exit, Failure

if TYPE_CHECKING:
    import aiohttp

REFUSED, _CONFLICT = 400, 409
#: silence, a wrong offset (it is asked for again), too much at once, faults of the gateway itself
_PASSING = {408, 416, 429, *range(500, 507)}
_RECEIVED = "UploadReceived"
_TAKEN_OVER = "TakenOver"
_LONGEST_ANSWER = 64 * 1024
#: what a refusal without a body means, as answers to HEAD are
_MEANINGS = {
    401: ("the token is not accepted, another session has replaced it", "Run the same command again"),
    404: ("there is no such upload session any more", "Run the same command again"),
    409: (
        "another upload of this model is under way",
        "Wait for it, or stop it and run the same command again",
    ),
    410: ("the upload session has ended or lapsed", "`aictl retry` opens a new one"),
}


class Broken(Exception):
    """The connection or the gateway failed in a way that may pass."""

    def __init__(self, why: str, retry_after: float | None = None, *, answered: bool = False) -> None:
        super().__init__(why)
        self.retry_after = retry_after
        self.answered = answered


class TakenOver(Failure):
    """The gateway has got another request for this upload, which it takes for the newer one."""


class Complete(Exception):
    """The gateway has all bytes of an upload already and takes no more."""


class _Refusal(msgspec.Struct, frozen=True, rename="camel"):
    reason: str = ""
    message: str = ""
    next_step: str = ""


async def said(answer: aiohttp.ClientResponse) -> bytes:
    """Return the body, however many pieces it comes in."""
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) >= _LONGEST_ANSWER:
            break
    return bytes(body)


async def refused(answer: aiohttp.ClientResponse) -> Exception:
    """Tell what may pass from what may not, in the gateway's own words."""
    if answer.status == _CONFLICT and answer.method == "HEAD":
        return Complete()
    try:
        refusal = msgspec.json.decode(await said(answer), type=_Refusal)
    except msgspec.DecodeError:
        otherwise = (f"the answer is {answer.status} {answer.reason}", "")
        refusal = _Refusal("", *_MEANINGS.get(answer.status, otherwise))
    if refusal.reason == _RECEIVED:
        return Complete()
    if answer.status in _PASSING:
        after = answer.headers.get("Retry-After", "")
        return Broken(refusal.message, float(after) if after.isdecimal() else None, answered=True)
    code = {400: Exit.USAGE, 401: Exit.DENIED, 403: Exit.DENIED, 409: Exit.FAILED}.get(
        answer.status, Exit.IMPOSSIBLE
    )
    kind = TakenOver if refusal.reason == _TAKEN_OVER else Failure
    return kind(
        "The gateway refuses the upload", refusal.message, refusal.next_step, code=code, detail=refusal.reason
    )
