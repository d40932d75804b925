"""The planner as the controller asks it.

What belongs here: one question, its bounds, and what its answer means. What does not: when to ask again. A
planner that cannot be asked says nothing about an order: what runs goes on.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec

from aiinference.api.reasons import OrderReason
from aiinference.models.outcomes import Unavailable
from aiinference.models.trust import Trust
from aiinference.planner.contract import PATH, Answer
from opskit.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from aiinference.planner.contract import LaunchRequest
    from kubekit.client import Client

ANSWER_BYTES = 1 << 20
_TOKEN_BYTES = 64 << 10
_PIECE = 64 << 10
_TEXT = 512

_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Answer)


class PlannerUnavailable(Exception):
    """There is no answer about the order; asking again later helps."""

    def __init__(self, why: str, reason: OrderReason = OrderReason.PLANNER_UNAVAILABLE) -> None:
        super().__init__(why[:_TEXT])
        self.reason = reason


@dataclass(frozen=True, slots=True)
class PlannerSettings:
    """Where the planner is, how long it may take, and the token to show there."""

    base_url: str
    token_file: Path
    timeout_seconds: float = 10.0
    #: where the module tells which certificates are its own
    trust_namespace: str = "d8-ai-inference"
    trust_config_map: str = "ai-inference-trust"


class _Problem(msgspec.Struct, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""


class PlannerClient:
    """Asks the planner; ``session`` belongs to the caller and has neither cookies nor proxies."""

    def __init__(self, session: aiohttp.ClientSession, trust: Trust, settings: PlannerSettings) -> None:
        self._session = session
        self._trust = trust
        self._url = settings.base_url.rstrip("/") + PATH
        self._settings = settings

    async def plan(self, request: LaunchRequest) -> Answer:
        """Ask once; ``PlannerUnavailable`` when no usable answer comes in time."""
        seconds = self._settings.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                status, body = await self._ask(msgspec.json.encode(request))
        except TimeoutError as error:
            raise PlannerUnavailable(f"the planner does not answer within {seconds:g} s") from error
        except (aiohttp.ClientSSLError, ssl.SSLError) as error:
            self._trust.doubt()
            raise PlannerUnavailable(f"the planner's certificate is not trusted: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise PlannerUnavailable(
                f"the planner cannot be reached: {type(error).__name__} {error}"
            ) from error
        except Unavailable as error:
            raise PlannerUnavailable(f"the planner's certificates are not known: {error}") from error
        return _read(status, body)

    async def _ask(self, body: bytes) -> tuple[int, bytes]:
        context = await self._trust.context()
        token = await asyncio.to_thread(self._token)
        headers = {
            "authorization": f"Bearer {token}",
            "content-type": "application/json",
            "accept-encoding": "identity",
        }
        async with self._session.post(
            self._url, data=body, headers=headers, ssl=context, allow_redirects=False
        ) as response:
            received = bytearray()
            async for piece in response.content.iter_chunked(_PIECE):
                received += piece
                if len(received) > ANSWER_BYTES:
                    raise PlannerUnavailable(f"the planner's answer is larger than {ANSWER_BYTES} bytes")
            return response.status, bytes(received)

    def _token(self) -> str:
        """Read the token anew: the kubelet replaces it."""
        file = self._settings.token_file
        try:
            with file.open("rb") as opened_file:
                return opened_file.read(_TOKEN_BYTES).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise PlannerUnavailable(f"the token file {file} cannot be read: {error}") from error


@asynccontextmanager
async def opened(
    settings: PlannerSettings, client: Client, clock: Clock | None = None
) -> AsyncIterator[PlannerClient]:
    """Give the planner's client; its connections are closed at the end."""
    trust = Trust(client, settings.trust_namespace, settings.trust_config_map, clock or SystemClock())
    session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False)
    async with session:
        yield PlannerClient(session, trust, settings)


def _read(status: int, body: bytes) -> Answer:
    """Return what an answer means."""
    try:
        if status == HTTPStatus.OK:
            found: Answer = _DECODER.decode(body)
            return found
        problem = msgspec.json.decode(body, type=_Problem)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PlannerUnavailable(
            f"the planner answers {status} with something unreadable: {error}"
        ) from error
    text = f"the planner answers {status} {problem.reason}: {problem.message}"
    if problem.reason == OrderReason.INVENTORY_UNAVAILABLE:
        raise PlannerUnavailable(text, OrderReason.INVENTORY_UNAVAILABLE)
    raise PlannerUnavailable(text)
