"""The catalogue by way of its lookup: ``GET /api/internal/v1/models/lookup``.

What belongs here: one question, its bounds, and what its answer means. What does not: when to ask again;
nothing is repeated here, since the next way is taken at once.

Only the lookup's own words about a model are answers: found, ``ModelNotFound``, ``ModelNotReady``. Everything
else, 401 and 403 included, means that this way does not work: the Kubernetes API decides by the same rights
when it is asked next, so that a wrong set-up here costs nothing and opens nothing.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

import aiohttp
import msgspec

from aiinference.api.reasons import OrderReason
from aiinference.models import said
from aiinference.models.facts import ModelFacts
from aiinference.models.outcomes import Refusal, Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from aiinference.models.reference import Reference
    from aiinference.models.trust import Trust

BODY_LIMIT = 256 * 1024
_TOKEN_LIMIT = 64 * 1024
_PIECE = 64 * 1024


@dataclass(frozen=True, slots=True)
class RestSettings:
    """Where the lookup is, how long it may take, and the token to show there."""

    base_url: str
    path: str
    token_file: Path
    timeout_seconds: float = 10.0


class _Problem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A refusal of the lookup."""

    reason: str = ""
    message: str = ""
    model_reason: str = ""
    model_message: str = ""


class Rest:
    """Asks the lookup; ``session`` belongs to the caller and has neither cookies nor proxies."""

    name = "Rest"

    def __init__(self, session: aiohttp.ClientSession, trust: Trust, settings: RestSettings) -> None:
        self._session = session
        self._trust = trust
        self._url = settings.base_url.rstrip("/") + settings.path
        self._token_file = settings.token_file
        self._seconds = settings.timeout_seconds

    async def facts(self, reference: Reference) -> ModelFacts | Refusal:
        """Ask once; ``Unavailable`` when no usable answer comes in time."""
        try:
            async with asyncio.timeout(self._seconds):
                status, body = await self._ask(reference)
        except TimeoutError as error:
            raise Unavailable(f"no answer within {self._seconds:g} s") from error
        except (aiohttp.ClientSSLError, ssl.SSLError) as error:
            self._trust.doubt()
            raise Unavailable(f"its certificate is not trusted: {error}"[: said.LIMIT]) from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"{type(error).__name__} {error}"[: said.LIMIT]) from error
        return _read(reference, status, body)

    async def _ask(self, reference: Reference) -> tuple[int, bytes]:
        context = await self._trust.context()
        token = await asyncio.to_thread(self._token)
        parameters = {"kind": str(reference.kind), "name": reference.name}
        if reference.namespace:
            parameters["namespace"] = reference.namespace
        async with self._session.get(
            self._url,
            params=parameters,
            headers={"authorization": f"Bearer {token}", "accept-encoding": "identity"},
            ssl=context,
            allow_redirects=False,  # the token is for this host only
        ) as response:
            body = bytearray()
            async for piece in response.content.iter_chunked(_PIECE):
                body += piece
                if len(body) > BODY_LIMIT:
                    raise Unavailable(f"its answer is larger than {BODY_LIMIT} bytes")
            return response.status, bytes(body)

    def _token(self) -> str:
        """Read the token anew: the kubelet replaces it."""
        try:
            with self._token_file.open("rb") as file:
                return file.read(_TOKEN_LIMIT).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Unavailable(f"the token file {self._token_file} cannot be read: {error}") from error


def _read(reference: Reference, status: int, body: bytes) -> ModelFacts | Refusal:
    """Return what an answer means."""
    if status == HTTPStatus.OK:
        return _facts(reference, body)
    try:
        problem = msgspec.json.decode(body, type=_Problem)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unavailable(f"it answers {status} with something unreadable") from error
    match status, problem.reason:
        case HTTPStatus.NOT_FOUND, OrderReason.MODEL_NOT_FOUND:
            return said.not_found(reference)
        case HTTPStatus.CONFLICT, OrderReason.MODEL_NOT_READY:
            return said.not_ready(reference, problem.model_reason, problem.model_message)
    text = f"it answers {status} {problem.reason}: {problem.message}"
    raise Unavailable(text[: said.LIMIT])


def _facts(reference: Reference, body: bytes) -> ModelFacts:
    try:
        facts = msgspec.json.decode(body, type=ModelFacts)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unavailable(f"its answer cannot be read: {error}"[: said.LIMIT]) from error
    if (facts.namespace, facts.name) != (reference.namespace, reference.name) or not facts.ready:
        raise Unavailable(f"it answers about another model than {reference}")
    return facts
