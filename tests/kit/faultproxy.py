"""An HTTP proxy before a real API server that goes wrong when it is told to.

It speaks plain HTTP to the test and the kubeconfig's TLS and credentials to the server, so that
`proxy.client()` sees a real cluster through it. Faults: an answer of its own (410, 429, 5xx), a rewritten
query, a request held back until it is released, an answer that gets lost; for running watches: nothing is
passed on any more, the connection is cut, a line is added.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import httpx2
from aiohttp import web
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import KubeConfig
from lightkube.config.models import Cluster, User

from kubekit.client import Client

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


@dataclass(frozen=True)
class Request:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    authorization: str
    at: float

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "1"

    @property
    def is_list(self) -> bool:
        return self.method == "GET" and "limit" in self.query


@dataclass
class Rule:
    """What happens to the next requests that match; `times` counts down."""

    when: Callable[[Request], bool]
    times: int
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    rewrite: dict[str, str] = field(default_factory=dict)
    gate: asyncio.Event | None = None
    is_lost: bool = False
    then: Callable[[], Awaitable[None]] | None = None
    met: asyncio.Event = field(default_factory=asyncio.Event)
    #: the server has executed a request that met the rule
    done: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(eq=False)
class RunningWatch:
    """A watch whose answer is being passed on."""

    request: web.Request
    response: web.StreamResponse
    silent: bool = False
    cut: asyncio.Event = field(default_factory=asyncio.Event)

    def abort(self) -> None:
        self.cut.set()
        if self.request.transport is not None:
            self.request.transport.abort()


class FaultProxy:
    """One proxy; an async context manager."""

    def __init__(self, kubeconfig: Path) -> None:
        config = KubeConfig.from_file(kubeconfig).get()
        assert config is not None
        timeout = httpx2.Timeout(10, read=None)
        self._upstream = client_adapter.AsyncClient(config, client_adapter.ConnectionParams(timeout=timeout))
        self._rules: list[Rule] = []
        self._watches: list[RunningWatch] = []
        self._runner: web.AppRunner | None = None
        self.requests: list[Request] = []
        self.watch_started = asyncio.Event()
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        self.cut()
        await self._runner.cleanup()
        await self._upstream.aclose()

    @property
    def running_watches(self) -> int:
        """Return how many watches are answered and have not ended."""
        return len(self._watches)

    def kubeconfig(self, file: Path) -> Path:
        """Write a kubeconfig for a process that is to see the cluster through this proxy."""
        named = {"name": "proxy"}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [named | {"cluster": {"server": self.url}}],
            "users": [named | {"user": {}}],
            "contexts": [named | {"context": {"cluster": "proxy", "user": "proxy"}}],
            "current-context": "proxy",
        }
        file.write_text(json.dumps(content))
        return file

    def client(self, *, token_file: Path | None = None) -> Client:
        """Return a client that sees the cluster through this proxy."""
        user = User(token_file=str(token_file)) if token_file else User()
        config = KubeConfig.from_one(cluster=Cluster(server=self.url), user=user).get()
        assert config is not None
        return Client(config)

    def answer(
        self,
        status: int,
        when: Callable[[Request], bool],
        *,
        times: int = 1,
        headers: dict[str, str] | None = None,
    ) -> Rule:
        """Answer the next matching requests with an error of this status."""
        return self._rule(Rule(when, times, status=status, headers=headers or {}))

    def rewrite(self, when: Callable[[Request], bool], *, times: int = 1, **query: str) -> Rule:
        """Change the query of the next matching requests before the server sees it."""
        return self._rule(Rule(when, times, rewrite=query))

    def lose(
        self,
        when: Callable[[Request], bool],
        *,
        times: int = 1,
        then: Callable[[], Awaitable[None]] | None = None,
    ) -> Rule:
        """Let the server execute the next matching requests, and break the connection without an answer.

        ``then`` is run in between: the server has executed the request, whoever sent it does not know yet.
        """
        return self._rule(Rule(when, times, is_lost=True, then=then))

    def hold(self, when: Callable[[Request], bool], *, times: int = 1) -> Rule:
        """Keep the next matching requests back until `release`; `rule.met` tells that one has come."""
        return self._rule(Rule(when, times, gate=asyncio.Event()))

    @staticmethod
    def release(rule: Rule) -> None:
        """Let held requests go on."""
        assert rule.gate is not None
        rule.gate.set()

    def silence(self) -> None:
        """Pass nothing on any more over the watches that run now; their connections stay open."""
        for watch in self._watches:
            watch.silent = True

    def cut(self) -> None:
        """Break the connections of all watches that run now."""
        for watch in self._watches:
            watch.abort()

    async def inject(self, line: dict[str, Any]) -> None:
        """Add a line to all watches that run now."""
        for watch in list(self._watches):
            await watch.response.write(json.dumps(line).encode() + b"\n")

    async def inject_gone(self) -> None:
        """Tell all watches, inside the stream, that their version is too old."""
        status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
        await self.inject({"type": "ERROR", "object": status})

    def _rule(self, rule: Rule) -> Rule:
        self._rules.append(rule)
        return rule

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        seen = Request(
            request.method,
            request.path,
            dict(request.query),
            request.headers.get("Authorization", ""),
            time.monotonic(),
        )
        self.requests.append(seen)
        await request.read()  # whoever sends it may be gone when it is passed on
        query = dict(request.query)
        passed: list[Rule] = []
        for rule in self._rules:
            if rule.times and rule.when(seen):
                rule.times -= 1
                rule.met.set()
                if rule.gate is not None:
                    await rule.gate.wait()
                query |= rule.rewrite
                if rule.status:
                    body = {"kind": "Status", "code": rule.status, "reason": "", "message": "by the proxy"}
                    return web.json_response(body, status=rule.status, headers=rule.headers)
                if rule.is_lost:
                    return await self._lose(request, query, rule)
                passed.append(rule)
        return await self._forward(request, query, passed, watch=seen.is_watch)

    async def _lose(self, request: web.Request, query: dict[str, str], rule: Rule) -> web.StreamResponse:
        answer = await self._send(request, query)
        await answer.aclose()
        if rule.then is not None:
            await rule.then()
        rule.done.set()
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _send(self, request: web.Request, query: dict[str, str]) -> httpx2.Response:
        kept = {
            name: value
            for name, value in request.headers.items()
            if name.lower() in {"accept", "content-type"}
        }
        upstream = self._upstream.build_request(
            request.method, request.path, params=query, content=await request.read(), headers=kept
        )
        return await self._upstream.send(upstream, stream=True)

    async def _forward(
        self, request: web.Request, query: dict[str, str], passed: list[Rule], *, watch: bool
    ) -> web.StreamResponse:
        answer = await self._send(request, query)
        for rule in passed:
            rule.done.set()
        try:
            response = web.StreamResponse(
                status=answer.status_code,
                headers={"Content-Type": answer.headers.get("content-type", "application/json")},
            )
            await response.prepare(request)
            with suppress(ConnectionError):
                if watch:
                    await self._pass_on_watch(RunningWatch(request, response), answer)
                else:
                    await response.write(await answer.aread())
                await response.write_eof()
            return response
        finally:
            await answer.aclose()

    async def _pass_on_watch(self, watch: RunningWatch, answer: httpx2.Response) -> None:
        self._watches.append(watch)
        self.watch_started.set()
        try:
            async for chunk in answer.aiter_bytes():
                if not watch.silent:
                    await watch.response.write(chunk)
            if watch.silent:
                await watch.cut.wait()
        finally:
            self._watches.remove(watch)
