"""The gateway's HTTP: ``/v1/upload/<session>`` and what is below it.

What belongs here: reading requests and writing answers. What does not: receiving (``receiving``), multipart
(``multipart``), who may (``access``).

Nothing is asked of a body before its session's token was checked, and a refusal closes the connection after
at most half a MiB of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from aimodels.upload import ranges, refusals
from aimodels.upload.body import Body, ClientGone, Silent, Stopped
from aimodels.upload.receiving import Receipt, Standing
from modelio.registry import RegistryError
from modelkit import names
from opskit import logging
from webkit import audit, health, limits
from webkit.problems import SAFE_HEADERS, Problem, json_answer

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from aimodels.upload.access import Access, Door
    from aimodels.upload.receiving import Receiver

_LOG = logging.logger(__name__)

_SESSION = re.compile(r"/v1/upload/([^/]{1,128})")
_DISPOSITION = re.compile(r'filename="?([^";]{1,255})"?')
_DIGEST_HEADER = "Upload-Digest"


class App:
    """The ASGI application."""

    def __init__(self, door: Door, receiver: Receiver, idle_seconds: float) -> None:
        self._door = door
        self._receiver = receiver
        self._idle = idle_seconds
        self._health = Starlette(routes=health.routes())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if not scope["path"].startswith("/v1/"):
            await self._health(scope, receive, send)
            return
        begun = False

        async def noted() -> Message:
            nonlocal begun
            begun = True
            return await receive()

        try:
            response = await self._answer(Request(scope, noted))
        except ClientGone:
            return
        except Problem as problem:
            await limits.refuse(scope, receive, send, problem, begun=begun)
        except RegistryError as error:
            _LOG.warning("the registry refused or failed", path=scope["path"], err=error)
            await limits.refuse(scope, receive, send, refusals.of_registry(error), begun=begun)
        else:
            await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        match = _SESSION.fullmatch(request.scope["path"])
        if not match:
            raise refusals.not_found()
        access = await self._enter(request, match[1])
        if request.method == "PUT":
            return await self._put(request, access)
        if request.method == "HEAD":
            return _standing(await self._receiver.standing(access))
        raise refusals.method_not_allowed("HEAD, PUT")

    async def _enter(self, request: Request, session: str) -> Access:
        try:
            return await self._door.enter(session, request.headers.get("authorization", ""))
        except Problem as problem:
            _audit("upload_denied", request, session, problem.reason)
            raise

    async def _put(self, request: Request, access: Access) -> Response:
        filename = file_name(request)
        length = content_length(request)
        piece = ranges.parse(request.headers.get("content-range"), length)
        body = Body(request.receive, self._idle)
        try:
            if piece is None:
                answer: Receipt | Standing = await self._receiver.receive(
                    access, body, filename=filename, length=length
                )
            else:
                answer = await self._receiver.resume(access, body, piece, filename=filename)
        except Silent:
            raise refusals.stalled(None, self._idle) from None
        except Stopped:
            raise refusals.restarting() from None
        if isinstance(answer, Standing):
            return json_answer({"offset": answer.offset}, 202, {refusals.OFFSET_HEADER: str(answer.offset)})
        _audit("upload_received", request, access.session, "allowed", digest=answer.digest)
        return received(answer)


def received(receipt: Receipt) -> Response:
    """Return the answer to the last byte."""
    return json_answer(
        {
            "digest": receipt.digest,
            "sizeBytes": receipt.size_bytes,
            "reason": refusals.Reason.RECEIVED,
            "message": "the whole file was received and is being published",
            "nextStep": "watch the model's status until it is Ready",
        },
        201,
    )


def _standing(standing: Standing) -> Response:
    headers = {**SAFE_HEADERS, refusals.OFFSET_HEADER: str(standing.offset)}
    if standing.digest:
        headers[_DIGEST_HEADER] = standing.digest
    return Response(headers=headers)


def file_name(request: Request) -> str | None:
    """Return the file's name as the client gave it, by query, header or disposition; Problem 400 if bad."""
    given = request.query_params.get("filename") or request.headers.get("x-upload-filename")
    if not given and (match := _DISPOSITION.search(request.headers.get("content-disposition", ""))):
        given = match[1]
    if not given:
        return None
    try:
        return names.file_name(unquote(given))
    except names.BadName as error:
        raise refusals.invalid(
            str(error), "give a plain name by ?filename=", refusals.Reason.INVALID_FILE_NAME
        ) from error


def content_length(request: Request) -> int | None:
    """Return the announced length; the server has refused what is no number."""
    given = request.headers.get("content-length")
    return int(given) if given is not None else None


def _audit(event: str, request: Request, session: str, result: str, **fields: str) -> None:
    audit.record(
        event, audit.Actor(), request.scope, target=f"upload/{session[:128]}", result=result, **fields
    )
