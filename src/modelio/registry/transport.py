"""HTTP to one registry: connections, time-outs, grants, redirects, retries, errors.

What belongs here: everything that every call shares. What does not: what the calls mean.

Authorization goes to the registry's own origin only, never to a redirect's or a Location's other host.
"""

from __future__ import annotations

import io
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
import msgspec
from yarl import URL

from modelio.registry.errors import (
    NotAuthorised,
    ProtocolViolation,
    RegistryError,
    RegistryUnavailable,
    TransferStalled,
    from_answer,
)
from modelio.wire import TokenAnswer, TokenRequest
from opskit.retry import retrying

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
    from typing import TypeVar

    from modelio.registry.body import StreamedBody
    from modelio.registry.grants import GrantSource
    from modelio.registry.persistence import Patience
    from modelio.wire import TransferSpec

    T = TypeVar("T")

_REDIRECTS = {301, 302, 303, 307, 308}
_MOST_REDIRECTS = 3
_READ_BUFFER = 1 << 20
#: Below the shortest keep-alive of the servers in use, so that a connection is not reused as it is closed.
_KEEP_ALIVE_SECONDS = 4.0


@dataclass(frozen=True)
class Answer:
    """A small answer, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: URL


class Transport:
    """One connection pool to one registry, with one grant source."""

    def __init__(
        self,
        base_url: str,
        *,
        tls: ssl.SSLContext | None,
        auth: GrantSource | None,
        patience: Patience,
        pool: _Pool | None = None,
    ) -> None:
        self.base = URL(base_url)
        if self.base.scheme not in {"http", "https"} or self.base.path != "/":
            raise ValueError(f"{base_url!r} is not the address of a registry: https://host[:port], no path")
        self.patience = patience
        self.auth = auth
        self._tls = tls
        self._pool = pool or _Pool(tls, patience)

    def with_auth(self, auth: GrantSource | None) -> Transport:
        """Return a transport with another grant source over the same connections."""
        return Transport(str(self.base), tls=self._tls, auth=auth, patience=self.patience, pool=self._pool)

    async def close(self) -> None:
        """Close the connections, those of ``with_auth`` copies too."""
        await self._pool.close()

    def resolve(self, target: str) -> URL:
        """Return the absolute URL of a path or of a Location header."""
        return self.base.join(URL(target, encoded=True))

    async def call(
        self,
        method: str,
        target: str,
        *,
        ok: Collection[int],
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        most: int = 1 << 20,
    ) -> Answer:
        """Make a repeatable call with a small answer; retried while that can help and patience lasts."""

        async def once() -> Answer:
            async with self.stream(method, target, ok=ok, headers=headers, body=body) as response:
                return Answer(response.status, response.headers, await _whole(response, most), response.url)

        return await self._retrying(once)

    async def grant(self) -> str | None:
        """Return a grant with enough life left, None for an open registry."""
        return None if self.auth is None else await self.auth.grant(self._exchange)

    def refused(self, error: RegistryError, grant: str | None) -> None:
        """Forget a grant that the registry did not accept, so that the next call asks for another."""
        if isinstance(error, NotAuthorised) and self.auth is not None and grant is not None:
            self.auth.discard(grant)

    def trust(self) -> ssl.SSLContext:
        """Return whom we believe to be the registry."""
        return self._tls or ssl.create_default_context()

    async def own_transfer(self) -> TransferSpec | None:
        """Return the record behind this transport's grants, freshly asked for."""
        auth = self.auth
        if auth is None:
            return None
        return await self._retrying(lambda: auth.renew(self._exchange))

    async def _retrying(self, once: Callable[[], Awaitable[T]]) -> T:
        """Await ``once`` until it succeeds or cannot; a refused grant is renewed one time at once."""

        async def with_renewal() -> T:
            try:
                return await once()
            except NotAuthorised:
                if self.auth is None:
                    raise
                return await once()

        return await retrying(
            with_renewal,
            retry_on=is_retriable,
            backoff=self.patience.backoff,
            deadline=self.patience.retry,
        )

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        target: str,
        *,
        ok: Collection[int],
        headers: Mapping[str, str] | None = None,
        body: bytes | StreamedBody | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the answer to one try, unread; errors while its body is read are mapped too."""
        url = self.resolve(target)
        try:
            response, grant = await self._send(method, url, headers or {}, body)
        except OSError as error:
            raise _lost(method, url, error) from error
        try:
            async with response:
                if response.status not in ok:
                    await self._refuse(method, response, grant)
                yield response
        except aiohttp.ClientError as error:
            raise _lost(method, url, error) from error

    async def _send(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes | StreamedBody | None,
    ) -> tuple[aiohttp.ClientResponse, str | None]:
        for _ in range(_MOST_REDIRECTS + 1):
            sent = dict(headers)
            grant = await self.grant() if _same_origin(url, self.base) else None
            if grant is not None:
                sent["Authorization"] = f"Bearer {grant}"
            try:
                data = io.BytesIO(body) if isinstance(body, bytes) and body else body
                response = await self._pool.session().request(
                    method, url, headers=sent, data=data, allow_redirects=False
                )
            except aiohttp.ClientError as error:
                raise _lost(method, url, error) from error
            if response.status not in _REDIRECTS or method not in {"GET", "HEAD"}:
                return response, grant
            url = self._redirected(url, response)
            response.release()
        raise ProtocolViolation(f"{method} {url.path} was redirected more than {_MOST_REDIRECTS} times")

    def _redirected(self, url: URL, response: aiohttp.ClientResponse) -> URL:
        target = url.join(URL(response.headers.get("Location", ""), encoded=True))
        if target == url or target.scheme not in {"http", "https"}:
            raise ProtocolViolation(f"{url.path} was redirected without a usable Location")
        if url.scheme == "https" and target.scheme != "https":
            raise ProtocolViolation(f"{url.path} was redirected from TLS to plain HTTP, which is refused")
        return target

    async def _refuse(self, method: str, response: aiohttp.ClientResponse, grant: str | None) -> None:
        body = await _up_to(response, 4096)
        error = from_answer(
            method, response.url.path, response.status, body, response.headers.get("Retry-After")
        )
        self.refused(error, grant)
        response.close()
        raise error

    async def _exchange(self, token: str, transfer: str | None) -> TokenAnswer:
        plain = self.with_auth(None)
        answer = await plain.call(
            "POST",
            "/token",
            ok={200},
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            body=msgspec.json.encode(TokenRequest(transfer=transfer)),
        )
        return decoded(answer, TokenAnswer)


class _Pool:
    """The aiohttp session, made on first use inside the running loop."""

    def __init__(self, tls: ssl.SSLContext | None, patience: Patience) -> None:
        self._tls = tls
        self._patience = patience
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, ssl=self._tls or True, keepalive_timeout=_KEEP_ALIVE_SECONDS
                ),
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=self._patience.connect, sock_read=self._patience.stall
                ),
                headers={"Accept-Encoding": "identity"},
                auto_decompress=False,
                read_bufsize=_READ_BUFFER,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def is_retriable(error: Exception) -> bool:
    """Say whether the same call may succeed later."""
    return isinstance(error, RegistryError) and error.retriable


def decoded(answer: Answer, kind: type[T]) -> T:
    """Decode a JSON answer, or say that it is not what the protocol promises."""
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except msgspec.DecodeError as error:
        raise ProtocolViolation(f"{answer.url.path} answered with unexpected JSON: {error}") from error


def _same_origin(one: URL, other: URL) -> bool:
    """Tell whether a grant for one is for the other: a default port may be written or left out."""
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


async def _whole(response: aiohttp.ClientResponse, most: int) -> bytes:
    body = await _up_to(response, most + 1)
    if len(body) > most:
        response.close()
        raise ProtocolViolation(f"{response.url.path} answered with more than {most} bytes")
    return body


async def _up_to(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Return the body as far as ``most``, however many pieces it comes in."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) >= most:
            break
    return bytes(body[:most])


def _lost(method: str, url: URL, error: Exception) -> RegistryUnavailable:
    kind = TransferStalled if isinstance(error, TimeoutError) else RegistryUnavailable
    return kind(f"{method} {url.path} at {url.host}:{url.port}: {error or type(error).__name__}")
