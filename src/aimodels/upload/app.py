"""The gateway's HTTP: ``/v1/upload/<session>`` and what is below it.

What belongs here: reading requests and writing answers. What does not: receiving (``receiving``), multipart
(``multipart``), who may (``access``).

Nothing is asked of a body before its session's token was checked, and a refusal closes the connection after
at most half a MiB of it.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from aimodels.upload import ranges, refusals
from aimodels.upload.body import Body, ClientGone, Silent, Stopped
from aimodels.upload.multipart import Multipart
from aimodels.upload.multipart_http import PART_PATH, MultipartRoutes, checked_name
from aimodels.upload.receiving import Receipt, Standing
from modelio.registry import RegistryError
from opskit import logging
from webkit import audit, health, limits
from webkit.problems import SAFE_HEADERS, Problem, json_answer

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from aimodels.upload.access import Access, Door
    from aimodels.upload.receiving import Receiver
    from opskit.clock import Clock

_LOG = logging.logger(__name__)

_SESSION = re.compile(r"/v1/upload/([^/]{1,128})(?:/(.{1,64}))?")
_DISPOSITION = re.compile(r'filename="?([^";]{1,255})"?')
_DIGEST_HEADER = "Upload-Digest"


class App:
    """The ASGI application."""

    def __init__(self, door: Door, receiver: Receiver, clock: Clock, idle_seconds: float) -> None:
        self._door = door
        self._receiver = receiver
        self._uploads = Multipart(receiver)
        self._multipart = MultipartRoutes(self._uploads, clock, idle_seconds)
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
        session, below = match[1], match[2]
        part = PART_PATH.fullmatch(below or "")
        access = await self._enter(request, session, int(part[1]) if part else None)
        try:
            if part:
                return await self._put_part(request, access, int(part[1]))
            if below:
                return await self._call(request, access, below)
            return await self._session(request, access)
        except Silent:
            raise refusals.stalled(self._idle) from None
        except Stopped:
            raise refusals.restarting() from None

    async def _enter(self, request: Request, session: str, part: int | None) -> Access:
        token = request.headers.get("authorization", "")
        try:
            if part is not None and not token:
                check = partial(self._multipart.check_signature, request, number=part)
                return await self._door.enter_signed(session, check)
            return await self._door.enter(session, token)
        except Problem as problem:
            _audit("upload_denied", request, session, problem.reason)
            raise

    async def _session(self, request: Request, access: Access) -> Response:
        if request.method == "PUT":
            return await self._put(request, access)
        if request.method not in {"GET", "HEAD"}:
            raise refusals.method_not_allowed("GET, HEAD, PUT")
        standing = await self._receiver.standing(access)
        self._uploads.taken_over(access.session)
        if request.method == "HEAD":
            return _standing(standing)
        return await self._multipart.status(access, standing.offset)

    async def _call(self, request: Request, access: Access, name: str) -> Response:
        calls = {
            "probe": self._multipart.probe,
            "init": self._multipart.init,
            "parts": self._multipart.parts,
            "complete": self._complete,
            "abort": self._multipart.abort,
        }
        if name not in calls:
            raise refusals.not_found()
        if request.method != "POST":
            raise refusals.method_not_allowed("POST")
        await self._receiver.refuse_received(access)
        return await calls[name](request, access)

    async def _complete(self, request: Request, access: Access) -> Response:
        receipt = await self._multipart.complete(request, access)
        _audit("upload_received", request, access.session, "allowed", digest=receipt.digest)
        return received(receipt)

    async def _put_part(self, request: Request, access: Access, number: int) -> Response:
        if request.method != "PUT":
            raise refusals.method_not_allowed("PUT")
        return await self._multipart.put_part(request, access, number)

    async def _put(self, request: Request, access: Access) -> Response:
        filename = file_name(request)
        length = content_length(request)
        piece = ranges.parse(request.headers.get("content-range"), length)
        body = Body(request.receive, self._idle)
        answer: Receipt | Standing
        if piece is None:
            answer = await self._receiver.receive(access, body, filename=filename, length=length)
        else:
            answer = await self._receiver.resume(access, body, piece, filename=filename)
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
    if given := request.query_params.get("filename"):
        return checked_name(given)
    given = request.headers.get("x-upload-filename")
    if not given and (match := _DISPOSITION.search(request.headers.get("content-disposition", ""))):
        given = match[1]
    return checked_name(unquote(given)) if given else None


def content_length(request: Request) -> int | None:
    """Return the announced length; the server has refused what is no number."""
    given = request.headers.get("content-length")
    return int(given) if given is not None else None


def _audit(event: str, request: Request, session: str, result: str, **fields: str) -> None:
    audit.record(
        event, audit.Actor(), request.scope, target=f"upload/{session[:128]}", result=result, **fields
    )
