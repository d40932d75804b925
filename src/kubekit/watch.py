"""Following one kind: list it page by page, watch it from there, and list again when the server says so.

What belongs here: states, time-outs and back-off. What does not: keeping the objects (``kubekit.store``).

States: EMPTY -> LISTING (pages) -> LISTED -> WATCHING. A watch that ends goes back to LISTED and continues
from the newest version seen (bookmarks move it); 410 Gone, by status or inside the stream, goes back to
EMPTY, and so do five failures in a row (a restored API server may never reach our version). A deletion that
fell into the gap is found by whoever compares the new list with the old one, so ``Relisted`` is always
complete.

A connection on which nothing arrives any more looks like a quiet cluster. The server is told to end every
watch after about five minutes; if it has not by a margin later, the connection is given up.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from kubekit.errors import Gone, KubeError, fields_of
from kubekit.resources.meta import Resource
from kubekit.wire import Applied, Bookmark, Deleted, Undecodable, decode_event
from opskit import logging, metrics
from opskit.retry import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.client import Client, Params

R = TypeVar("R", bound=Resource)

_log = logging.logger(__name__)

_FAILURES_BEFORE_RELIST = 5

_RELISTS = metrics.counter("watch_relists", "Complete lists made.", ["kind"])
_ENDS = metrics.counter("watch_ends", "Lists and watches that failed, by reason.", ["kind", "reason"])


class State(Enum):
    """Where a watcher is."""

    EMPTY = "Empty"
    LISTING = "Listing"
    LISTED = "Listed"
    WATCHING = "Watching"


@dataclass(frozen=True)
class WatchTiming:
    """How long a watch lasts, which one did not fail, and how failures are spaced, in seconds."""

    server_timeout: float = 300.0
    spread: float = 0.2
    idle_margin: float = 30.0
    healthy: float = 45.0
    backoff: Backoff = field(default_factory=lambda: Backoff(first=0.8, most=30.0))


@dataclass(frozen=True)
class Relisted(Generic[R]):
    """All objects that there are; what is not among them is gone."""

    items: list[R | Undecodable]


class Watcher(Generic[R]):
    """Follows one kind (and namespace, and selector) for as long as ``run`` runs."""

    def __init__(
        self,
        client: Client,
        struct: type[R],
        *,
        namespace: str | None = None,
        selectors: Params | None = None,
        timing: WatchTiming | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._client = client
        self._struct = struct
        self._namespace = namespace
        self._selectors = selectors or {}
        self._timing = timing or WatchTiming()
        self._rng = rng or random.SystemRandom()
        self._version = ""
        self._failures = 0
        self._heard_at: float | None = None
        self.state = State.EMPTY
        self.kind = struct.KIND.name

    def age(self) -> float:
        """Return for how many seconds nothing was heard from the server; infinite before the first answer."""
        return float("inf") if self._heard_at is None else _now() - self._heard_at

    async def run(self, sink: Callable[[Relisted[R] | Applied[R] | Deleted[R]], None]) -> None:
        """Feed the sink for ever; every failure is waited out."""
        while True:
            try:
                if self.state is State.EMPTY:
                    await self._list(sink)
                await self._watch(sink)
            except (KubeError, msgspec.DecodeError) as error:
                await self._recover(error)

    async def _list(self, sink: Callable[[Relisted[R] | Applied[R] | Deleted[R]], None]) -> None:
        """List all pages, then hand them on at once."""
        self.state = State.LISTING
        items: list[R | Undecodable] = []
        next_page = ""
        while True:
            page = await self._client.page(
                self._struct, self._namespace, params=self._selectors, next_page=next_page
            )
            self._heard()
            items += page.items
            next_page = page.next_page
            if not next_page:
                break
        self._version = page.resource_version
        self.state = State.LISTED
        _RELISTS.labels(self.kind).inc()
        sink(Relisted(items))

    async def _watch(self, sink: Callable[[Relisted[R] | Applied[R] | Deleted[R]], None]) -> None:
        """Hand on what one watch request tells until the server ends it."""
        timing = self._timing
        lasting = timing.server_timeout * self._rng.uniform(1 - timing.spread, 1 + timing.spread)
        params = self._selectors | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(max(1, round(lasting))),
        }
        path = self._struct.KIND.path(self._namespace)
        started = _now()
        try:
            async with self._client.stream(path, params=params, idle=lasting + timing.idle_margin) as lines:
                self.state = State.WATCHING
                self._heard()
                async for line in lines:
                    self._heard()
                    self._take(decode_event(line, self._struct), sink)
        finally:
            # Also one that breaks: proxies cut long connections, which is no failure of the server.
            if _now() - started > timing.healthy:
                self._failures = 0
        self.state = State.LISTED
        if _now() - started < lasting / 2:
            await self._pause("EndedEarly")

    def _take(
        self,
        event: Applied[R] | Deleted[R] | Bookmark,
        sink: Callable[[Relisted[R] | Applied[R] | Deleted[R]], None],
    ) -> None:
        if isinstance(event, Bookmark):
            self._version = event.resource_version
            return
        sink(event)
        self._version = event.object.metadata.resource_version

    async def _recover(self, error: KubeError | msgspec.DecodeError) -> None:
        """Choose the state to continue from, and wait."""
        hopeless = self._failures >= _FAILURES_BEFORE_RELIST
        lost = isinstance(error, Gone) or self.state is State.LISTING or hopeless
        self.state = State.EMPTY if lost else State.LISTED
        _log.warning("watch interrupted", kind=self.kind, state=self.state.value, **fields_of(error))
        asked_for = getattr(error, "retry_after", None) or 0.0
        await self._pause(getattr(error, "reason", "") or type(error).__name__, at_least=asked_for)

    async def _pause(self, reason: str, *, at_least: float = 0.0) -> None:
        _ENDS.labels(self.kind, reason).inc()
        self._failures += 1
        await asyncio.sleep(max(self._timing.backoff.delay(self._failures), at_least))

    def _heard(self) -> None:
        self._heard_at = _now()


def _now() -> float:
    return asyncio.get_running_loop().time()
