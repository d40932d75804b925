"""The catalogue's side of the registry's HTTP: tokens, transfers, repositories.

What belongs here: reading these requests and writing their answers. What does not: what they do
(``tokens``, ``transfers``, ``repositories``, ``metering``).
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from aimodels.dmcr import names
from aimodels.dmcr.door import bearer
from aimodels.dmcr.problems import Denied, Invalid, NotFound, TryAgain, Unsupported
from modelio.wire import TokenRequest, TransferList, TransferProgress, TransferSpec
from opskit.logging import logger

if TYPE_CHECKING:
    from starlette.requests import Request

    from aimodels.dmcr.metering import Metering, Totals
    from aimodels.dmcr.owner import Ownership
    from aimodels.dmcr.principal import Authenticator, Principal
    from aimodels.dmcr.repositories import Repositories
    from aimodels.dmcr.sessions import Sessions
    from aimodels.dmcr.tokens import TokenDesk
    from aimodels.dmcr.transfers import Transfer, Transfers

T = TypeVar("T")

MOST_BODY_BYTES = 64 * 1024
BODY_SECONDS = 10.0
_NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

_log = logger(__name__)


class Control:
    """The routes and what they need; ``desk`` is None when the registry runs without grants."""

    def __init__(
        self,
        *,
        door: Authenticator,
        ownership: Ownership,
        repositories: Repositories,
        sessions: Sessions,
        transfers: Transfers,
        metering: Metering,
        desk: TokenDesk | None,
    ) -> None:
        self._door = door
        self._ownership = ownership
        self._repositories = repositories
        self._sessions = sessions
        self._transfers = transfers
        self._metering = metering
        self._desk = desk

    def routes(self) -> list[Route]:
        """Return the routes to mount beside ``/v2``."""
        return [
            Route("/token", self.token, methods=["POST"]),
            Route("/api/transfers/v1", self.list_transfers, methods=["GET"]),
            Route("/api/transfers/v1/{id}", self.transfer, methods=["GET", "PUT", "DELETE"]),
            Route("/api/sessions/v1/{name:path}", self.end_sessions, methods=["DELETE"]),
            Route("/api/repositories/v1/{name:path}", self.close_repository, methods=["DELETE"]),
        ]

    async def token(self, request: Request) -> Response:
        """Exchange a projected token for a grant."""
        if self._desk is None:
            raise Unsupported("this registry runs without grants (DMCR_AUTH=none): no token is needed")
        asked = await _body(request, TokenRequest)
        return _json(await self._desk.exchange(bearer(request.headers), asked.transfer))

    async def list_transfers(self, request: Request) -> Response:
        """Answer with the progress of every transfer that is not revoked."""
        await self._catalogue(request)
        found = [transfer async for transfer in self._transfers.all_active()]
        items = await asyncio.gather(*(self._progress(transfer) for transfer in found))
        return _json(TransferList(items=list(items)))

    async def transfer(self, request: Request) -> Response:
        """Put, get or revoke one transfer."""
        caller = await self._catalogue(request)
        transfer: str = request.path_params["id"]
        if request.method == "PUT":
            await self._transfers.put(transfer, await _body(request, TransferSpec))
            _log.info("transfer allowed", transfer=transfer, by=caller.name)
            return Response(status_code=204)
        if request.method == "DELETE":
            await self._revoke(transfer, caller, keep=_keeps_sessions(request))
            return Response(status_code=204)
        return _json(await self._progress(await self._transfers.get(transfer)))

    async def end_sessions(self, request: Request) -> Response:
        """End what ended transfers have left open in a repository: repeatable, also when there is none."""
        caller = await self._catalogue(request)
        name = names.repository(request.path_params["name"])
        await self._sessions.void_abandoned(name, self._is_over)
        _log.info("sessions of ended transfers ended", repository=name, by=caller.name)
        return Response(status_code=204)

    async def close_repository(self, request: Request) -> Response:
        """Close a repository's record: repeatable, also when there is none."""
        caller = await self._catalogue(request)
        name = names.repository(request.path_params["name"])
        await self._repositories.close(name)
        _log.info("repository closed", repository=name, by=caller.name)
        return Response(status_code=204)

    async def _catalogue(self, request: Request) -> Principal:
        caller = await self._door.authenticate(request.headers)
        if not caller.catalogue:
            raise Denied("only the catalogue may do this")
        if request.method != "GET" and self._ownership.read_only is not None:
            raise Denied(f"the registry is read-only: {self._ownership.read_only}")
        return caller

    async def _revoke(self, transfer: str, caller: Principal, *, keep: bool) -> None:
        ended = await self._transfers.revoke(transfer)
        if ended is None:
            return
        if "push" in ended.spec.actions:
            await (self._sessions.fence_transfer if keep else self._sessions.void_transfer)(transfer)
        totals = await self._metering.totals(transfer)
        _log.info(
            "transfer ended",
            transfer=transfer,
            purpose=ended.spec.purpose,
            sessions_kept=keep,
            repository=ended.spec.repository,
            by=caller.name,
            expected_bytes=ended.spec.expected_bytes,
            received_bytes=totals.received,
            delivered_bytes=totals.delivered,
            bytes_per_second=totals.bytes_per_second(),
        )

    async def _is_over(self, transfer: str) -> bool:
        """Tell whether a transfer was revoked, or is so long ago that nothing is known of it."""
        try:
            return (await self._transfers.get(transfer)).state == "revoked"
        except NotFound:
            return True

    async def _progress(self, transfer: Transfer) -> TransferProgress:
        totals, record = await asyncio.gather(
            self._metering.totals(transfer.id), self._repositories.get(transfer.spec.repository)
        )
        same_life = record is not None and record.state == "open" and record.life == transfer.life
        return progress(transfer, totals, dict(record.tags) if record is not None and same_life else {})


def progress(transfer: Transfer, totals: Totals, tags: dict[str, str]) -> TransferProgress:
    """Return what people see; an upload's offset is its newest session's, a publication's the sum."""
    spec = transfer.spec
    return TransferProgress(
        id=transfer.id,
        purpose=spec.purpose,
        repository=spec.repository,
        state=transfer.state,
        expected_bytes=spec.expected_bytes,
        received_bytes=totals.received,
        offset=totals.latest_offset if spec.purpose == "upload" else totals.offset,
        delivered_bytes=totals.delivered,
        last_progress_time=datetime.fromtimestamp(totals.at, UTC) if totals.at else None,
        tags=tags,
    )


def _keeps_sessions(request: Request) -> bool:
    """Tell whether what the transfer stored is to be there for another one."""
    asked = request.query_params.get("sessions", "void")
    if asked not in ("keep", "void"):
        raise Invalid(f"sessions={asked[:40]!a}: it is keep or void", code="QUERY_INVALID")
    return asked == "keep"


async def _body(request: Request, kind: type[T]) -> T:
    """Read a small JSON body within its limit and time, or refuse."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > MOST_BODY_BYTES:
                    raise Invalid(
                        f"the body is larger than {MOST_BODY_BYTES} bytes", status=413, code="SIZE_INVALID"
                    )
    except (TimeoutError, ClientDisconnect) as error:
        raise TryAgain("the body did not arrive, or not in time") from error
    try:
        return msgspec.json.decode(bytes(body), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"the body is not what is expected here: {error}", code="BODY_INVALID") from error


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json", headers=_NO_STORE)
