"""Refusals as HTTP answers: a closed reason, what and why, and the next step; never cached, never sniffed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from opskit import logging

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request

_LOG = logging.logger(__name__)

SAFE_HEADERS = {
    "cache-control": "no-store",
    "pragma": "no-cache",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


class Problem(Exception):
    """A refusal: raised anywhere below a route, answered as JSON ``{reason, message, nextStep}``.

    ``reason`` is a word of a closed set, ``message`` says what and why, ``next_step`` what to do.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        next_step: str,
        *,
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.next_step = next_step
        self.headers = dict(headers or {})
        self.fields = fields

    def body(self) -> bytes:
        """Return the JSON of the answer, ended by a new line for terminals."""
        shown = {"reason": self.reason, "message": self.message, "nextStep": self.next_step}
        return msgspec.json.encode(shown | self.fields) + b"\n"

    def response(self) -> Response:
        """Return the whole answer."""
        headers = SAFE_HEADERS | self.headers
        return Response(self.body(), self.status, headers, media_type="application/json")


def json_answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON answer with the safe headers."""
    encoded = msgspec.json.encode(body) + b"\n"
    return Response(encoded, status, SAFE_HEADERS | dict(headers or {}), media_type="application/json")


def handlers() -> dict[Any, Callable[[Request, Exception], Awaitable[Response]]]:
    """Return the exception handlers of a Starlette application whose every answer is a Problem."""
    return {Problem: _refused, HTTPException: _routed_nowhere, Exception: _failed}


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)  # noqa: S101 - registered for this class only
    return error.response()


async def _routed_nowhere(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    reason = {404: "NotFound", 405: "MethodNotAllowed"}.get(status, "BadRequest")
    return Problem(
        status, reason, "nothing is served at this path by this method", "check the URL"
    ).response()


async def _failed(request: Request, error: Exception) -> Response:
    _LOG.error("request failed", method=request.method, path=request.scope["path"], exc_info=error)
    return Problem(500, "InternalError", "the server failed", "try again; its log names the cause").response()
