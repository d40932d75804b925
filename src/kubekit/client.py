"""The Kubernetes API by its verbs, for partial Structs and manifests.

What belongs here: one request and its answer or error. What does not: watching, caching, retrying.

Configuration, credentials (rotated tokens are read again) and the HTTP session are lightkube's; the verbs are
ours, because they need preconditions, bookmarks and one tree of errors whatever stands before the API server.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import httpx2
import msgspec
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.core.exceptions import ConfigError

from kubekit.errors import KubeError, NotFound, ServerError, Unreachable, api_error
from kubekit.resources.meta import Kind, Resource, kind_of
from kubekit.wire import Page, Undecodable, decode_page
from opskit import metrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

R = TypeVar("R", bound=Resource)

Params = dict[str, str]
Propagation = Literal["Background", "Foreground", "Orphan"]
Content = Literal["json", "merge", "strategic", "apply"]

DEFAULT_TIMEOUT = 15.0
PAGE_SIZE = 500

_CONTENT_TYPES: dict[str, str] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_HTTP_ERROR = 400

_REQUESTS = metrics.counter(
    "kube_requests", "Requests to the Kubernetes API by method and code (0: no answer).", ["method", "code"]
)


def connect(kubeconfig: Path | None = None, *, timeout: float = DEFAULT_TIMEOUT) -> Client:
    """Return a client for a kubeconfig file, or for what the Pod or the environment (KUBECONFIG) says."""
    found = KubeConfig.from_file(kubeconfig) if kubeconfig else KubeConfig.from_env()
    config = found.get()
    if config is None:
        raise ConfigError(
            "the kubeconfig names no current context; choose one with `kubectl config use-context`"
        )
    return Client(config, timeout=timeout)


class Client:
    """One session with one API server; every verb raises the tree of ``kubekit.errors``."""

    def __init__(self, config: SingleConfig, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        parameters = client_adapter.ConnectionParams(timeout=httpx2.Timeout(timeout))
        self._session = client_adapter.AsyncClient(config, parameters)
        self._timeout = timeout
        self.server = config.cluster.server

    async def close(self) -> None:
        """Close the session's connections."""
        await self._session.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def get(self, struct: type[R], name: str, namespace: str | None = None) -> R:
        """Return one object; ``NotFound`` when there is none."""
        body = await self.request("GET", struct.KIND.path(namespace, name))
        return _decoded(body, struct)

    async def find(self, struct: type[R], name: str, namespace: str | None = None) -> R | None:
        """Return one object, or None."""
        try:
            return await self.get(struct, name, namespace)
        except NotFound:
            return None

    async def list(
        self,
        struct: type[R],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> list[R]:
        """Return all objects, page by page; one that does not fit the Struct fails the call."""
        found: list[R] = []
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        params = {name: selector for name, selector in selectors.items() if selector}
        next_page = ""
        while True:
            page = await self.page(struct, namespace, params=params, next_page=next_page)
            for item in page.items:
                if isinstance(item, Undecodable):
                    raise _unreadable(struct.KIND, item.metadata.name, item.error)
                found.append(item)
            next_page = page.next_page
            if not next_page:
                return found

    async def page(
        self, struct: type[R], namespace: str | None = None, *, params: Params, next_page: str = ""
    ) -> Page[R]:
        """Return one page of a list, whatever objects it holds."""
        query = params | {"limit": str(PAGE_SIZE)}
        if next_page:
            query["continue"] = next_page
        body = await self.request("GET", struct.KIND.path(namespace), params=query)
        try:
            return decode_page(body, struct)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _unreadable(struct.KIND, "", str(error)) from error

    async def create(
        self, manifest: Mapping[str, Any], *, dry_run: bool = False, kind: Kind | None = None
    ) -> dict[str, Any]:
        """Create an object from its manifest and return it as the API server made it."""
        kind = kind or kind_of(manifest)
        path = kind.path(manifest.get("metadata", {}).get("namespace"))
        params = {"dryRun": "All"} if dry_run else {}
        return _dict(await self.request("POST", path, params=params, body=manifest))

    async def patch(
        self,
        kind: Kind | type[Resource],
        name: str,
        body: Any,
        *,
        namespace: str | None = None,
        content: Content = "merge",
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Patch an object, or a subresource of it, and return the object as it is then."""
        params: Params = {}
        if field_manager:
            params["fieldManager"] = field_manager
        if force:
            params["force"] = "true"
        if dry_run:
            params["dryRun"] = "All"
        path = _kind(kind).path(namespace, name, subresource)
        content_type = _CONTENT_TYPES[content]
        return _dict(await self.request("PATCH", path, params=params, body=body, content_type=content_type))

    async def delete(
        self,
        kind: Kind | type[Resource],
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation = "Background",
    ) -> bool:
        """Ask for an object's deletion, if it is still the one with that uid; False when there is none."""
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
        }
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options["preconditions"] = {key: value for key, value in preconditions.items() if value}
        try:
            await self.request("DELETE", _kind(kind).path(namespace, name), body=options)
        except NotFound:
            return False
        return True

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> bytes:
        """Send one request and return the answer's body."""
        request = self._session.build_request(
            method,
            path,
            params=params,
            content=None if body is None else msgspec.json.encode(body),
            headers={"Accept": "application/json"} | ({} if body is None else {"Content-Type": content_type}),
            timeout=self._timeout if timeout is None else timeout,
        )
        try:
            response = await self._session.send(request)
        except (httpx2.HTTPError, ConfigError, OSError) as error:
            _REQUESTS.labels(method, 0).inc()
            raise _unreachable(method, path, error) from error
        _REQUESTS.labels(method, response.status_code).inc()
        if response.status_code >= _HTTP_ERROR:
            raise _refused(response, response.content)
        return response.content

    @asynccontextmanager
    async def stream(self, path: str, *, params: Params, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a streamed answer and give its lines; ``Unreachable`` after so many seconds without a byte."""
        timeout = httpx2.Timeout(self._timeout, read=idle)
        request = self._session.build_request(
            "GET", path, params=params, headers={"Accept": "application/json"}, timeout=timeout
        )
        try:
            response = await self._session.send(request, stream=True)
            _REQUESTS.labels("WATCH", response.status_code).inc()
            try:
                if response.status_code >= _HTTP_ERROR:
                    raise _refused(response, await response.aread())
                yield _lines(response)
            finally:
                await response.aclose()
        except (httpx2.HTTPError, ConfigError, OSError) as error:
            _REQUESTS.labels("WATCH", 0).inc()
            raise _unreachable("WATCH", path, error) from error


async def _lines(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Split a stream into lines; what is cut off at its end is no line."""
    rest: list[bytes] = []
    async for chunk in response.aiter_bytes():
        *complete, tail = chunk.split(b"\n")
        for line in complete:
            yield b"".join((*rest, line))
            rest = []
        if tail:
            rest.append(tail)


def _kind(kind: Kind | type[Resource]) -> Kind:
    return kind if isinstance(kind, Kind) else kind.KIND


def _dict(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ServerError(0, "Undecodable", f"the answer is no JSON object: {error}") from error


def _decoded(body: bytes, struct: type[R]) -> R:
    try:
        return msgspec.json.decode(body, type=struct)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(struct.KIND, "", str(error)) from error


def _unreadable(kind: Kind, name: str, error: str) -> KubeError:
    return ServerError(
        0, "Undecodable", f"{kind.name} {name} has a form that this version cannot read: {error}"
    )


def _refused(response: httpx2.Response, body: bytes) -> KubeError:
    return api_error(response.status_code, body, retry_after=response.headers.get("Retry-After"))


def _unreachable(method: str, path: str, error: Exception) -> Unreachable:
    return Unreachable(
        f"no answer to {method} {path} from the Kubernetes API: {type(error).__name__} {error}"
    )
