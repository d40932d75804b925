"""Asking an order over HTTP, with bounds on everything.

What belongs here: one request and what became of it. What does not: what it means for the order (``health``).
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

import aiohttp

from aiinference.probes.questions import ANSWER_LIMIT, judge

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from aiinference.probes.questions import Question

_CONNECT_SECONDS = 5
_ANSWER_SECONDS = 60
_AT_ONCE = 32


@dataclass(frozen=True)
class Outcome:
    """What became of one question; ``wrong`` is empty after an answer that counts."""

    wrong: str
    seconds: float
    #: as many requests are on their way as there may be: nothing was learnt
    busy: bool = False

    @property
    def ok(self) -> bool:
        """Tell whether the order answers."""
        return not (self.wrong or self.busy)


class Prober:
    """Asks orders, a bounded number at a time; nothing that one answers can stop the others."""

    def __init__(self, answer_seconds: float = _ANSWER_SECONDS) -> None:
        self._limit = answer_seconds
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True, limit=_AT_ONCE),
            timeout=aiohttp.ClientTimeout(total=self._limit, sock_connect=_CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session:
            await self._session.close()

    async def ask(self, host: str, port: int, question: Question, key: str | None) -> Outcome:
        """Ask the gate at an address; the key is sent there and nowhere else."""
        async with self._turns:
            start = time.monotonic()
            wrong = await self._asked(host, port, question, key)
            return Outcome(wrong or "", time.monotonic() - start, busy=wrong is None)

    async def _asked(self, host: str, port: int, question: Question, key: str | None) -> str | None:
        """Return what is wrong, if anything; None when the gate has no room for one request more."""
        assert self._session is not None, "used as a context manager"  # noqa: S101 - of whoever wires it
        headers = {"Accept-Encoding": "identity"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        if question.body is not None:
            headers["Content-Type"] = "application/json"
        where = f"http://{f'[{host}]' if ':' in host else host}:{port}{question.path}"
        try:
            async with self._session.request(
                question.method, where, data=question.body, headers=headers, allow_redirects=False
            ) as answer:
                body = await _bounded(answer)
        except TimeoutError:
            return f"{question.method} {question.path} was not answered within {self._limit:g} s."
        except aiohttp.ClientError as error:
            return f"{question.method} {question.path} failed: {_words(error)}"
        if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
            return None
        if body is None:
            return f"{question.method} {question.path} was answered with more than {ANSWER_LIMIT} bytes."
        return judge(question, answer.status, body)


async def _bounded(answer: aiohttp.ClientResponse) -> bytes | None:
    """Return the whole body, or None when it is larger than any answer can be."""
    body = b""
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > ANSWER_LIMIT:
            return None
    return body


def _words(error: aiohttp.ClientError) -> str:
    return f"{error or type(error).__name__}"[:200]
