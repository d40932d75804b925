"""Who may use an upload session: the token's hash in the transfer's record at the registry.

What belongs here: checking the user's token, and the registry client that acts for one session. What does
not: asking the registry, and how often (``lookups``); uploading.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aimodels.upload.lookups import Lookups
from aimodels.upload.refusals import ended, unauthorized
from modelio.registry.wire import TRANSFER_ID

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from modelio.registry import RegistryClient
    from opskit.clock import Clock

_MOST_TOKEN = 512
_NO_HASH = "0" * 64


@dataclass(frozen=True)
class Access:
    """A session that may be used: its id, its repository, and a client with its grants."""

    session: str
    repository: str
    client: RegistryClient
    token_hash: str


class Door:
    """Lets in whoever shows the token of a session."""

    def __init__(self, client: RegistryClient, token_file: Path, clock: Clock) -> None:
        self._lookups = Lookups(client, token_file, clock)

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
        known = await self._lookups.of(session)
        if known.token_hash is None:
            return None, known.over
        return Access(session, known.repository, known.client, known.token_hash), known.over
