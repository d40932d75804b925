"""The ASGI application: /v2 by hand on the raw path, everything else by Starlette.

What belongs here: identity, routing, turning errors into answers. What does not: what routes do.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response

from aimodels.dmcr import names
from aimodels.dmcr.problems import Denied, NotFound, RegistryProblem, TryAgain, Unsupported
from aimodels.dmcr.routes_blobs import BlobRoutes
from aimodels.dmcr.routes_manifests import ManifestRoutes
from aimodels.dmcr.routes_uploads import UploadRoutes
from aimodels.dmcr.swaps import Unclear, Undecodable
from aimodels.dmcr.wire import JSON, Answer, Cut, Request, refusal
from objectstore.port import ObjectStoreError, StoreFull
from opskit.logging import logger
from webkit.limits import drain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request as StarletteRequest
    from starlette.routing import BaseRoute
    from starlette.types import Receive, Scope, Send

    from aimodels.dmcr.owner import Ownership
    from aimodels.dmcr.principal import Authenticator
    from aimodels.dmcr.registry import Registry

    Handler = Callable[[Request, str, str], Awaitable[Answer]]

_PATHS = (
    ("uploads", re.compile(r"/v2/(?P<name>.+)/blobs/uploads/?(?P<reference>)\Z")),
    ("upload", re.compile(r"/v2/(?P<name>.+)/blobs/uploads/(?P<reference>[^/]+)\Z")),
    ("blob", re.compile(r"/v2/(?P<name>.+)/blobs/(?P<reference>[^/]+)\Z")),
    ("manifest", re.compile(r"/v2/(?P<name>.+)/manifests/(?P<reference>[^/]+)\Z")),
    ("tags", re.compile(r"/v2/(?P<name>.+)/tags/list(?P<reference>)\Z")),
    ("referrers", re.compile(r"/v2/(?P<name>.+)/referrers/(?P<reference>[^/]+)\Z")),
)
_READS = ("GET", "HEAD")
#: readers may have to flush what they read to a slow disk: they may pause longer than writers
_READERS_PATIENCE = 5
_VERSION = {"Docker-Distribution-API-Version": "registry/2.0", "Content-Type": JSON}
_log = logger(__name__)


class App:
    """One registry behind one listener."""

    def __init__(
        self,
        registry: Registry,
        door: Authenticator,
        ownership: Ownership,
        routes: Sequence[BaseRoute] = (),
    ) -> None:
        self._door = door
        self._stall_seconds = registry.idle_seconds * _READERS_PATIENCE
        self._ownership = ownership
        blobs, manifests, uploads = BlobRoutes(registry), ManifestRoutes(registry), UploadRoutes(registry)
        self._handlers: dict[tuple[str, str], Handler] = {
            ("uploads", "POST"): uploads.post,
            ("upload", "PATCH"): uploads.patch,
            ("upload", "PUT"): uploads.put,
            ("upload", "GET"): uploads.get,
            ("upload", "DELETE"): uploads.delete,
            ("blob", "GET"): blobs.get,
            ("blob", "HEAD"): blobs.head,
            ("blob", "DELETE"): blobs.delete,
            ("manifest", "PUT"): manifests.put,
            ("manifest", "GET"): manifests.get,
            ("manifest", "HEAD"): manifests.get,
            ("manifest", "DELETE"): manifests.delete,
            ("tags", "GET"): manifests.tags,
            ("referrers", "GET"): manifests.referrers,
        }
        self._other = Starlette(
            routes=list(routes),
            exception_handlers=dict.fromkeys(
                (RegistryProblem, ObjectStoreError, Unclear, Undecodable, HTTPException, Exception),
                _starlette_refusal,
            ),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            raise ValueError(f"only HTTP is served, not {scope['type']}")
        if not (scope["path"] == "/v2" or scope["path"].startswith("/v2/")):
            with contextlib.suppress(Exception):  # answered and logged by ``_starlette_refusal``
                await self._other(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except Cut:
            return
        except Exception as error:  # noqa: BLE001 - everything gets an answer
            answer = refusal(as_problem(error, request.path))
        await self._send(request, answer, send)

    async def _answer(self, request: Request) -> Answer:
        request.principal = await self._door.authenticate(request.headers)
        request.writable = self._ownership.read_only is None
        if request.path in ("/v2", "/v2/"):
            return Answer(200, _VERSION, b"{}")
        if request.method not in _READS and not request.writable:
            raise Denied(f"the registry is read-only: {self._ownership.read_only}")
        for kind, pattern in _PATHS:
            match = pattern.match(request.path)
            if match is not None:
                handler = self._handlers.get((kind, request.method))
                if handler is None:
                    raise Unsupported(f"{request.method} has no meaning here")
                return await handler(request, names.repository(match["name"]), match["reference"])
        raise NotFound("nothing is served under this path", code="NAME_UNKNOWN")

    async def _send(self, request: Request, answer: Answer, send: Send) -> None:
        """Send the answer; what is left of a body is read a little, then the connection ends."""
        head, patience = request.method == "HEAD", self._stall_seconds
        if request.finished:
            await answer.send(send, head=head, patience=patience)
            return
        closing = Answer(answer.status, {**answer.headers, "Connection": "close"}, answer.body)
        await closing.send(send, head=head, patience=patience)
        await drain(request.scope, request.receive)


def as_problem(error: Exception, path: str) -> RegistryProblem:
    """Return the refusal for any error; what is ours to mend is logged."""
    if isinstance(error, RegistryProblem):
        return error
    if isinstance(error, StoreFull):
        _log.error("the store is full", path=path, err=error)
        return TryAgain("the store has no space left: the administrator must make some")
    if isinstance(error, ObjectStoreError | Unclear):
        _log.warning("the store did not do it", path=path, err=error)
        return TryAgain("the store did not answer as it should: try again")
    _log.error("request failed", path=path, err=error)
    return RegistryProblem("the registry failed: its log says why")


async def _starlette_refusal(request: StarletteRequest, error: Exception) -> Response:
    path: str = request.scope["path"]
    if isinstance(error, HTTPException):
        error = RegistryProblem(
            f"{request.method} {path[:200]} is not served", status=error.status_code, code="UNSUPPORTED"
        )
    answer = refusal(as_problem(error, path))
    body = answer.body if isinstance(answer.body, bytes) else b""
    return Response(body, answer.status, dict(answer.headers))
