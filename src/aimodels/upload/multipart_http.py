"""The HTTP of multipart uploads: ``/probe /init /parts /complete /abort`` and the parts themselves.

A part's URL carries its own permission for a quarter of an hour, so that clients made for presigned URLs can
use it without the token: a keyed hash over session, part and time, with the token's hash as the key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import TYPE_CHECKING, TypeVar

import msgspec
from starlette.responses import Response

from aimodels.upload import multipart
from aimodels.upload.body import Body
from aimodels.upload.receiving import head_container
from aimodels.upload.refusals import Reason, invalid, length_required, unauthorized
from modelkit import names
from webkit import limits
from webkit.problems import SAFE_HEADERS, json_answer

if TYPE_CHECKING:
    from starlette.requests import Request

    from aimodels.upload.access import Access
    from aimodels.upload.multipart import Multipart
    from aimodels.upload.receiving import Receipt
    from opskit.clock import Clock

T = TypeVar("T")

PART_URL_SECONDS = 900
PART_PATH = re.compile(r"parts/([1-9]\d{0,4})")
_MOST_CHUNK = 64 << 10
_MOST_BODY = 2 << 20


class _Probe(msgspec.Struct, rename={"file_name": "fileName", "size_bytes": "sizeBytes"}):
    file_name: str
    size_bytes: int
    chunk: str


class _Init(msgspec.Struct, rename={"file_name": "fileName", "part_size_bytes": "partSizeBytes"}):
    file_name: str
    part_size_bytes: int | None = None


class _Parts(msgspec.Struct, rename={"part_numbers": "partNumbers"}):
    part_numbers: list[int]


class _NamedPart(msgspec.Struct, rename={"part_number": "partNumber"}):
    part_number: int
    etag: str


class _Complete(msgspec.Struct):
    parts: list[_NamedPart]


class MultipartRoutes:
    """Reads the requests of multipart clients and writes their answers."""

    def __init__(self, uploads: Multipart, clock: Clock, idle_seconds: float) -> None:
        self._uploads = uploads
        self._clock = clock
        self._idle = idle_seconds

    async def probe(self, request: Request, access: Access) -> Response:
        """Look at name, size and first bytes of a file before anything is sent."""
        asked = await _body(request, _Probe)
        try:
            chunk = base64.b64decode(asked.chunk, validate=True)
        except (binascii.Error, ValueError) as error:
            raise invalid("chunk is not base64", "send the first bytes of the file in base64") from error
        if len(chunk) > _MOST_CHUNK:
            raise invalid(f"chunk has more than {_MOST_CHUNK} bytes", "send fewer of the first bytes")
        filename = checked_name(asked.file_name)
        found = head_container(filename, chunk)
        multipart.plan(filename, asked.size_bytes, None)
        self._uploads.state(access.session).probed = (filename, asked.size_bytes, found)
        return json_answer({"fileName": filename, "resolvedInputFormat": found})

    async def init(self, request: Request, access: Access) -> Response:
        """Begin the file that was probed; calling it again tells how far it is."""
        asked = await _body(request, _Init)
        plan, fresh = await self._uploads.begin(access, checked_name(asked.file_name), asked.part_size_bytes)
        return json_answer(await self._described(access, plan), 201 if fresh else 200)

    async def parts(self, request: Request, access: Access) -> Response:
        """Give out the URLs of parts."""
        asked = await _body(request, _Parts)
        plan = multipart.announced(self._uploads.state(access.session))
        for number in asked.part_numbers:
            plan.span(number)
        base = f"{request.url.scheme}://{request.url.netloc}/v1/upload/{access.session}/parts"
        urls = [
            {"partNumber": number, "url": f"{base}/{number}?{self._signed(access, number)}"}
            for number in asked.part_numbers
        ]
        return json_answer({"uploadID": access.session, "parts": urls})

    async def put_part(self, request: Request, access: Access, number: int) -> Response:
        """Receive a part."""
        length = request.headers.get("content-length")
        if length is None:
            raise length_required()
        body = Body(request.receive, self._idle)
        tag = await self._uploads.part(access, number, int(length), body)
        return Response(headers={**SAFE_HEADERS, "etag": f'"{tag}"'})

    async def complete(self, request: Request, access: Access) -> Receipt:
        """Commit the file."""
        asked = await _body(request, _Complete)
        return await self._uploads.complete(access, [(part.part_number, part.etag) for part in asked.parts])

    async def abort(self, _request: Request, access: Access) -> Response:
        """Drop what was received."""
        await self._uploads.abort(access)
        return Response(status_code=204, headers=SAFE_HEADERS)

    async def status(self, access: Access, offset: int) -> Response:
        """Tell everything that is known of a session."""
        state = self._uploads.state(access.session)
        described = await self._described(access, state.plan) if state.plan else None
        probed = state.probed and {"fileName": state.probed[0], "resolvedInputFormat": state.probed[2]}
        return json_answer(
            {
                "mode": "direct-multipart-staging",
                "phase": "uploading" if offset else "issued",
                "uploadOffset": offset,
                "partURLTTLSeconds": PART_URL_SECONDS,
                "minimumPartSizeBytes": multipart.MINIMUM_PART,
                "maximumMultipartPartCount": multipart.MOST_PARTS,
                **({"probe": probed} if probed else {}),
                **({"multipart": described} if described else {}),
            }
        )

    async def _described(self, access: Access, plan: multipart.Plan) -> dict[str, object]:
        offset = await self._uploads.offset(access)
        whole = [
            {"partNumber": number, "etag": multipart.etag(number, plan.span(number)[1])}
            for number in plan.whole(offset)
        ]
        return {
            "uploadID": access.session,
            "key": plan.filename,
            "fileName": plan.filename,
            "partSizeBytes": plan.part,
            "uploadedParts": whole,
        }

    def _signed(self, access: Access, number: int) -> str:
        until = str(int(self._clock.now().timestamp()) + PART_URL_SECONDS)
        return f"until={until}&signature={_signature(access, number, until)}"

    def check_signature(self, request: Request, access: Access, number: int) -> None:
        """Refuse a part's URL that was not given out here, or is too old."""
        until, shown = request.query_params.get("until", ""), request.query_params.get("signature", "")
        if not hmac.compare_digest(shown.encode(), _signature(access, number, until).encode()):
            raise unauthorized()
        if int(until) < self._clock.now().timestamp():
            raise unauthorized()


def _signature(access: Access, number: int, until: str) -> str:
    said = f"{access.session}\n{number}\n{until}".encode()
    return hmac.new(access.token_hash.encode(), said, hashlib.sha256).hexdigest()


def checked_name(name: str) -> str:
    """Return a file name that may be kept; Problem 400 for any other."""
    try:
        return names.file_name(name)
    except names.BadName as error:
        raise invalid(str(error), "give the file a plain name", Reason.INVALID_FILE_NAME) from error


async def _body(request: Request, kind: type[T]) -> T:
    raw = await limits.read_body(request, _MOST_BODY)
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid(f"the body is not what this call takes: {error}", "see the documentation") from error
