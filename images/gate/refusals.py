"""What the gate itself answers, in the form that clients of the API know. Pure.

What belongs here: the words of every refusal and nginx's lines for them. What does not: when it is given.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True)
class Refusal:
    """One answer that is not the runtime's."""

    status: int
    kind: str
    code: str
    message: str
    headers: tuple[str, ...] = ()
    #: what nginx calls it, where that is something else
    instead_of: tuple[int, ...] = ()


_CALLER = "invalid_request_error"
REFUSALS = (
    Refusal(400, _CALLER, "bad_request", "This is no valid HTTP request."),
    Refusal(
        401,
        "authentication_error",
        "invalid_api_key",
        "The key is missing or wrong. Send the header Authorization: Bearer KEY; the key is the value token "
        "of the Secret that status.authSecretName of the order names.",
        ("WWW-Authenticate Bearer",),
    ),
    Refusal(404, _CALLER, "unknown_url", "This endpoint does not serve this path. It serves: {paths}."),
    Refusal(
        405,
        _CALLER,
        "method_not_allowed",
        "This path is called with another method; the header Allow says which.",
        ("Allow $gate_method",),
    ),
    Refusal(411, _CALLER, "length_required", "Send the header Content-Length, or a chunked body."),
    Refusal(
        413,
        _CALLER,
        "request_too_large",
        "The body is larger than {body_limit} bytes, the most that this endpoint takes. Send less at once.",
    ),
    Refusal(414, _CALLER, "uri_too_long", "The address is too long. Send parameters in the body."),
    Refusal(
        431,
        _CALLER,
        "headers_too_large",
        "The headers are too large. Send less in them.",
        instead_of=(494,),
    ),
    Refusal(
        429,
        "rate_limit_error",
        "rate_limit_exceeded",
        "Too many requests are on their way: {client_requests} of one client, or all that the model can have "
        "waiting. Wait until some are answered.",
        ("Retry-After 1",),
    ),
    Refusal(500, "server_error", "internal_error", "The gate failed. Try again."),
    Refusal(501, _CALLER, "not_implemented", "This Transfer-Encoding is not understood. Use chunked."),
    Refusal(
        503,
        "server_error",
        "model_not_available",
        "The model does not answer: it is being loaded, or its runtime has just ended. Try again in a "
        "moment; the conditions of the order say more.",
        ("Retry-After 5",),
        instead_of=(502, 503),
    ),
    Refusal(
        504,
        "server_error",
        "model_timeout",
        "The model did not take the request or said nothing for too long. Try again later.",
        ("Retry-After 5",),
    ),
)


def directives(words: Mapping[str, str]) -> Iterator[tuple[str, str, list[str]]]:
    """Return for each refusal the directive that leads to it, its location, and what stands in that."""
    for refusal in REFUSALS:
        place = f"/gate/refusal/{refusal.status}"
        codes = " ".join(str(code) for code in refusal.instead_of or (refusal.status,))
        changed = f" ={refusal.status}" if refusal.instead_of else ""
        yield f"error_page {codes}{changed} {place};", f"location = {place}", _answer(refusal, words)


def _answer(refusal: Refusal, words: Mapping[str, str]) -> list[str]:
    error = {
        "message": refusal.message.format_map(words),
        "type": refusal.kind,
        "param": None,
        "code": refusal.code,
    }
    body = json.dumps({"error": error}).replace("'", "\\u0027")
    headers = (*refusal.headers, "X-Request-Id $gate_request_id")
    return [
        "internal;",
        *(f"add_header {header} always;" for header in headers),
        f"return {refusal.status} '{body}';",
    ]
