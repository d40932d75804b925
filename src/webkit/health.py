"""``/livez``, ``/readyz`` and ``/metrics`` from named checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from opskit import metrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request

    Check = Callable[[], str | None]


def routes(
    *, live: Mapping[str, Check] | None = None, ready: Mapping[str, Check] | None = None
) -> list[Route]:
    """Return the three routes; a check returns what is wrong, or None."""
    return [
        Route("/livez", _endpoint(live or {})),
        Route("/readyz", _endpoint(ready or {})),
        Route("/metrics", _metrics),
    ]


def _endpoint(checks: Mapping[str, Check]) -> Callable[[Request], Awaitable[Response]]:
    # A coroutine, so that checks run on the event loop that they look at, and not in a thread.
    async def answer(_request: Request) -> Response:
        found = {name: check() for name, check in checks.items()}
        lines = [f"{name}: {wrong or 'ok'}" for name, wrong in found.items()] or ["ok"]
        return PlainTextResponse("\n".join(lines) + "\n", 503 if any(found.values()) else 200)

    return answer


def _metrics(_request: Request) -> Response:
    return Response(metrics.render(), media_type=metrics.CONTENT_TYPE)
