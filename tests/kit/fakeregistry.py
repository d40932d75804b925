"""A registry in this process that speaks the real protocol and can be told to fail.

It keeps one repository's blobs and sessions in memory. ``faults`` are consulted once each, in order: a fault
names the method and a part of the path that it waits for.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.test_utils import TestServer

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Fault:
    """Answer the next matching request with ``handler`` instead."""

    method: str
    path: str
    handler: Handler


@dataclass
class Session:
    key: str
    data: bytearray = field(default_factory=bytearray)
    attempt: int = 1
    length: int | None = None


@dataclass
class FakeRegistry:
    """State and faults; ``seen`` are all requests as ``METHOD path``, with their Authorization."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    seen: list[tuple[str, str | None]] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    received: int = 0
    grant: str | None = None
    grants_given: int = 0
    grant_seconds: int = 600
    cut_body_after: int | None = None
    url: str = ""
    _transports: set[int] = field(default_factory=set)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, body: bytes) -> str:
        digest = "sha256:" + hashlib.sha256(body).hexdigest()
        self.blobs[digest] = body
        return digest

    def fail(self, method: str, path: str, status: int, **headers: str) -> None:
        async def refuse(request: web.Request) -> web.StreamResponse:
            return web.json_response(
                {"errors": [{"code": "TESTED", "message": "on purpose"}]},
                status=status,
                headers={name.replace("_", "-"): value for name, value in headers.items()},
            )

        self.faults.append(Fault(method, path, refuse))

    def hang(self, method: str, path: str) -> None:
        """Leave the next matching request without an answer, its body unread."""

        async def silent(request: web.Request) -> web.StreamResponse:
            await self.stopping.wait()
            return web.Response()

        self.faults.append(Fault(method, path, silent))

    def handle(self, method: str, path: str, handler: Handler) -> None:
        self.faults.append(Fault(method, path, handler))

    @property
    def connections(self) -> int:
        """Different connections that requests came over."""
        return len(self._transports)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self._transports.add(id(request.transport))
        self.seen.append((f"{request.method} {request.path_qs}", request.headers.get("Authorization")))
        for fault in self.faults:
            if fault.method == request.method and fault.path in request.path_qs:
                self.faults.remove(fault)
                return await fault.handler(request)
        if request.path == "/token":
            return await self._token(request)
        if self.grant is not None and request.headers.get("Authorization") != f"Bearer {self.grant}":
            return refusal(401, "UNAUTHORIZED")
        if "/blobs/uploads/" in request.path:
            return await self._upload(request)
        if "/blobs/" in request.path:
            return await self._blob(request)
        if "/manifests/" in request.path:
            return await self._manifest(request)
        raise web.HTTPNotFound

    async def _token(self, request: web.Request) -> web.StreamResponse:
        asked = json.loads(await request.read())
        self.grants_given += 1
        self.grant = f"grant-{self.grants_given}"
        record = {
            "serviceAccount": "d8-ai-models/ai-models-copy",
            "repository": "models/team/x",
            "purpose": "copy",
        }
        return web.json_response(
            {
                "token": self.grant,
                "expiresAt": "2026-01-01T00:10:00Z",
                "expiresIn": self.grant_seconds,
                "transfer": record if asked.get("transfer") else None,
            }
        )

    async def _blob(self, request: web.Request) -> web.StreamResponse:
        body = self.blobs.get(request.path.rpartition("/")[2])
        if body is None:
            return refusal(404, "BLOB_UNKNOWN")
        if request.method == "HEAD":
            return web.Response(headers={"Content-Length": str(len(body))})
        start, stop, status = 0, len(body), 200
        headers = {}
        if "Range" in request.headers:
            first, _, last = request.headers["Range"].removeprefix("bytes=").partition("-")
            start, stop, status = int(first), int(last) + 1 if last else len(body), 206
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(body)}"
        self.ranges.append((start, stop))
        response = web.StreamResponse(status=status, headers=headers)
        response.content_length = stop - start
        await response.prepare(request)
        cut, self.cut_body_after = self.cut_body_after, None
        await response.write(body[start : stop if cut is None else min(stop, start + cut)])
        if cut is not None and request.transport is not None:
            request.transport.close()
        return response

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        if request.method == "POST":
            return await self._open(request)
        sid = request.path.rpartition("/")[2]
        session = self.sessions.get(sid)
        if session is None:
            return refusal(404, "BLOB_UPLOAD_UNKNOWN")
        if request.query.get("attempt") != str(session.attempt):
            return refusal(409, "BLOB_UPLOAD_INVALID")
        if request.method == "PATCH":
            return await self._patch(request, sid, session)
        if request.method == "PUT":
            return self._close(request, sid, session)
        if request.method == "DELETE":
            del self.sessions[sid]
        return self._where(request, sid, session, 204)

    async def _patch(self, request: web.Request, sid: str, session: Session) -> web.StreamResponse:
        if (at := request.headers.get("Content-Range")) and int(at.partition("-")[0]) != len(session.data):
            return refusal(416, "BLOB_UPLOAD_INVALID")
        cut, self.cut_body_after = self.cut_body_after, None
        async for piece in request.content.iter_any():
            taken = piece if cut is None else piece[:cut]
            session.data += taken
            self.received += len(taken)
            if cut is not None:
                cut -= len(taken)
                if cut == 0 and request.transport is not None:
                    request.transport.close()
                    break
        return self._where(request, sid, session, 202)

    def _close(self, request: web.Request, sid: str, session: Session) -> web.Response:
        digest = request.query["digest"]
        if "sha256:" + hashlib.sha256(session.data).hexdigest() != digest:
            return refusal(400, "DIGEST_INVALID")
        self.blobs[digest] = bytes(session.data)
        del self.sessions[sid]
        return web.Response(status=201, headers={"Location": f"/v2/x/blobs/{digest}"})

    async def _open(self, request: web.Request) -> web.StreamResponse:
        if "digest" in request.query:
            self.blobs[request.query["digest"]] = await request.read()
            return web.Response(status=201)
        if "mount" in request.query and request.query["mount"] in self.blobs:
            return web.Response(status=201)
        key = request.headers.get("Dmcr-Resume-Key", f"anonymous-{len(self.sessions)}")
        for sid, session in self.sessions.items():
            if session.key == key:
                session.attempt += 1
                if request.headers.get("Dmcr-Restart") == "true":
                    session.data.clear()
                return self._where(request, sid, session, 202)
        sid = f"s{len(self.sessions) + 1}"
        self.sessions[sid] = session = Session(key)
        return self._where(request, sid, session, 202)

    def _where(self, request: web.Request, sid: str, session: Session, status: int) -> web.Response:
        base = request.path.partition("/blobs/uploads/")[0]
        headers = {
            "Location": f"{base}/blobs/uploads/{sid}?attempt={session.attempt}",
            "Range": f"0-{max(len(session.data) - 1, 0)}",
            "Dmcr-Offset": str(len(session.data)),
            "Dmcr-Attempt": str(session.attempt),
        }
        if request.method == "GET":
            headers["Dmcr-Digest"] = "sha256:" + hashlib.sha256(session.data).hexdigest()
        return web.Response(status=status, headers=headers)

    async def _manifest(self, request: web.Request) -> web.StreamResponse:
        reference = request.path.rpartition("/")[2]
        if request.method == "PUT":
            body = await request.read()
            digest = "sha256:" + hashlib.sha256(body).hexdigest()
            for name in (reference, digest, *request.query.getall("tag", [])):
                self.manifests[name] = (request.content_type, body)
            return web.Response(status=201, headers={"Docker-Content-Digest": digest})
        if reference not in self.manifests:
            return refusal(404, "MANIFEST_UNKNOWN")
        if request.method == "DELETE":
            del self.manifests[reference]
            return web.Response(status=202)
        media_type, body = self.manifests[reference]
        digest = "sha256:" + hashlib.sha256(body).hexdigest()
        return web.Response(body=body, content_type=media_type, headers={"Docker-Content-Digest": digest})


def refusal(status: int, code: str) -> web.Response:
    return web.json_response({"errors": [{"code": code, "message": "no"}]}, status=status)


@asynccontextmanager
async def serving(registry: FakeRegistry, tls: ssl.SSLContext | None = None) -> AsyncIterator[FakeRegistry]:
    """Serve the registry on a free loopback port; its ``url`` says where."""
    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{path:.*}", registry.answer)
    server = TestServer(app, scheme="https" if tls else "http")
    await server.start_server(ssl=tls)
    registry.url = str(server.make_url("")).rstrip("/")
    try:
        yield registry
    finally:
        registry.stopping.set()
        await server.close()
