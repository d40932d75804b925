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
from modelio.wire import TRANSFER_ID
from webkit.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aimodels.upload.lookups import Known
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
        shown = hashlib.sha256(token.strip().encode()).hexdigest()

        def check(access: Access | None) -> Access:
            fits = hmac.compare_digest(shown, access.token_hash if access else _NO_HASH)
            if access is None or not fits:
                raise unauthorized()
            return access

        return await self._admit(session, check)

    async def enter_signed(self, session: str, check: Callable[[Access], None]) -> Access:
        """Return the access when ``check`` finds that its URL was given out for this session."""
        if not TRANSFER_ID.fullmatch(session):
            raise unauthorized()

        def check_known(access: Access | None) -> Access:
            if access is None:
                raise unauthorized()
            check(access)
            return access

        return await self._admit(session, check_known)

    async def _admit(self, session: str, check: Callable[[Access | None], Access]) -> Access:
        known = await self._lookups.of(session)
        try:
            access = check(_access(session, known))
        except Problem:
            # the catalogue may have given the session another token since
            known = await self._lookups.newer(session, known)
            access = check(_access(session, known))
        if known.over:
            raise ended()
        return access


def _access(session: str, known: Known) -> Access | None:
    if known.token_hash is None:
        return None
    return Access(session, known.repository, known.client, known.token_hash)
