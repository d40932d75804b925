"""Who may use an upload session: the token's hash in the transfer's record at the registry.

What belongs here: checking the user's token, and the registry client that acts for one session. What does
not: uploading. Nothing is kept that a restart may not forget.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aimodels.upload.refusals import ended, unauthorized
from modelio.registry import Denied, GrantSource, NotFound, RegistryClient
from modelio.registry.wire import TRANSFER_ID

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from modelio.registry import TransferSpec
    from opskit.clock import Clock

#: A record is asked for again after so long, so that a withdrawn session is refused soon.
FRESH_SECONDS = 5.0
_REMEMBERED = 1024
_ASKING_AT_ONCE = 16
_MOST_TOKEN = 512
_NO_HASH = "0" * 64


@dataclass(frozen=True)
class Access:
    """A session that may be used: its id, its repository, and a client with its grants."""

    session: str
    repository: str
    client: RegistryClient
    token_hash: str


@dataclass
class _Known:
    client: RegistryClient
    spec: TransferSpec | None
    over: bool
    until: float


class Door:
    """Lets in whoever shows the token of a session."""

    def __init__(self, client: RegistryClient, token_file: Path, clock: Clock) -> None:
        self._client = client
        self._token_file = token_file
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._asking = asyncio.Semaphore(_ASKING_AT_ONCE)

    async def enter(self, session: str, authorization: str) -> Access:
        """Return the access; refuse a wrong token and an unknown session alike (401), an ended one by 410."""
        scheme, _, token = authorization.partition(" ")
        if (
            not TRANSFER_ID.fullmatch(session)
            or scheme.lower() != "bearer"
            or not 0 < len(token) <= _MOST_TOKEN
        ):
            raise unauthorized()
        access, over = await self._find(session)
        shown = hashlib.sha256(token.strip().encode()).hexdigest()
        if not hmac.compare_digest(shown, access.token_hash if access else _NO_HASH) or access is None:
            raise unauthorized()
        if over:
            raise ended()
        return access

    async def enter_signed(self, session: str, check: Callable[[Access], None]) -> Access:
        """Return the access when ``check`` finds that its URL was given out for this session."""
        if not TRANSFER_ID.fullmatch(session):
            raise unauthorized()
        access, over = await self._find(session)
        if access is None:
            raise unauthorized()
        check(access)
        if over:
            raise ended()
        return access

    async def _find(self, session: str) -> tuple[Access | None, bool]:
        """Return the session, and whether it is over."""
        known = await self._look_up(session)
        spec = known.spec
        if spec is None or spec.purpose != "upload" or not spec.token_hash:
            return None, known.over
        return Access(session, spec.repository, known.client, spec.token_hash), known.over

    async def _look_up(self, session: str) -> _Known:
        known = self._known.get(session)
        if known is None or known.until < self._clock.monotonic():
            known = await self._ask(session, known)
            self._known[session] = known
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(session)
        return known

    async def _ask(self, session: str, known: _Known | None) -> _Known:
        client = known.client if known else self._client.with_auth(GrantSource(self._token_file, session))
        until = self._clock.monotonic() + FRESH_SECONDS
        async with self._asking:
            try:
                return _Known(client, await client.transfer(), over=False, until=until)
            except (Denied, NotFound):
                # a session that was good a moment ago has ended; its token still tells who may know that
                return _Known(client, known.spec if known else None, over=True, until=until)
