"""Grants: a projected token is exchanged at ``/token``, renewed before it expires and after a 401.

What belongs here: when to ask for a new grant. What does not: the HTTP call itself, which the transport
hands in.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from modelio.registry.errors import TokenFileUnreadable
from opskit.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from modelio.wire import TokenAnswer, TransferSpec

    Exchange = Callable[[str, str | None], Awaitable[TokenAnswer]]

#: A grant is renewed when this share of its life is left, so that a request never starts with a stale one.
_RENEW_AT = 0.25
_MOST_TOKEN_BYTES = 64 * 1024


class GrantSource:
    """Grants for one transfer, or (``transfer=None``) for the catalogue itself.

    The token file is read anew for every exchange, since the kubelet replaces it. Callers that ask at the
    same time share one exchange.
    """

    def __init__(self, token_file: Path, transfer: str | None = None, *, clock: Clock | None = None) -> None:
        self._token_file = token_file
        self._transfer = transfer
        self._clock = clock or SystemClock()
        self._asking = asyncio.Lock()
        self._answer: TokenAnswer | None = None
        self._renew_after = 0.0

    async def grant(self, exchange: Exchange) -> str:
        """Return a grant with enough life left, exchanging the token when there is none."""
        if (token := self._current()) is not None:
            return token
        async with self._asking:
            if (token := self._current()) is not None:
                return token
            return (await self._renew(exchange)).token

    async def renew(self, exchange: Exchange) -> TransferSpec | None:
        """Exchange the token now and return the transfer's record as the registry has it."""
        async with self._asking:
            return (await self._renew(exchange)).transfer

    async def _renew(self, exchange: Exchange) -> TokenAnswer:
        asked = self._clock.monotonic()
        answer = await exchange(await asyncio.to_thread(self._read), self._transfer)
        self._answer = answer
        self._renew_after = asked + answer.expires_in * (1 - _RENEW_AT)
        return answer

    def discard(self, token: str) -> None:
        """Forget a grant that the registry refused; a newer one stays."""
        if self._answer is not None and self._answer.token == token:
            self._answer = None

    def _current(self) -> str | None:
        if self._answer is None or self._clock.monotonic() >= self._renew_after:
            return None
        return self._answer.token

    def _read(self) -> str:
        try:
            with self._token_file.open("rb") as file:
                raw = file.read(_MOST_TOKEN_BYTES + 1)
            token = raw.decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise TokenFileUnreadable(f"the token file {self._token_file} cannot be read: {error}") from error
        if not token or len(raw) > _MOST_TOKEN_BYTES:
            raise TokenFileUnreadable(f"the token file {self._token_file} is empty or not a token")
        return token
