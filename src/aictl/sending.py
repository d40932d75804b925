"""One file on its way to the upload gateway, going on where the gateway is after every interruption.

What belongs here: the gateway's protocol and its retries. What does not: models, progress bars.

``HEAD`` tells how many bytes the gateway holds and their digest; a ``PUT`` with ``Content-Range`` continues
there, a ``PUT`` without starts over. Only the bytes of this very file are continued: the digest decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import aiohttp
import msgspec

from aictl.exits import Exit, Failure
from opskit.retry import Backoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from aictl.prefixes import Prefixes

CHUNK = 1 << 20
STALL_SECONDS = 60.0
ANSWER_SECONDS = 300.0
BACKOFF = Backoff(first=0.5, most=15.0)
_REFUSED, _CONFLICT = 400, 409
#: silence, a wrong offset (it is asked for again), too much at once, faults of the gateway itself
_PASSING = {408, 416, 429, *range(500, 507)}
_RECEIVED = "UploadReceived"
_TAKEN_OVER = "TakenOver"
_LONGEST_ANSWER = 64 * 1024
#: what a refusal without a body means, as answers to HEAD are
_MEANINGS = {
    401: ("the token is not accepted, another session has replaced it", "Run the same command again"),
    404: ("there is no such upload session any more", "Run the same command again"),
    409: (
        "another upload of this model is under way",
        "Wait for it, or stop it and run the same command again",
    ),
    410: ("the upload session has ended or lapsed", "`aictl retry` opens a new one"),
}


class Broken(Exception):
    """The connection or the gateway failed in a way that may pass."""

    def __init__(self, why: str, retry_after: float | None = None, *, answered: bool = False) -> None:
        super().__init__(why)
        self.retry_after = retry_after
        self.answered = answered


class TakenOver(Failure):
    """The gateway has got another request for this upload, which it takes for the newer one."""


class Complete(Exception):
    """The gateway has all bytes of an upload already and takes no more."""


class Held(msgspec.Struct, frozen=True):
    """What the gateway has of the file."""

    offset: int
    digest: str | None


class Receipt(msgspec.Struct, frozen=True, rename="camel"):
    """The gateway's answer to a whole file."""

    digest: str
    size_bytes: int


class _Refusal(msgspec.Struct, frozen=True, rename="camel"):
    reason: str = ""
    message: str = ""
    next_step: str = ""


@dataclass
class Progress:
    """What a display is told; every field is a call that does nothing unless it is replaced."""

    moved: Callable[[int], None] = field(default=lambda _offset: None)
    noted: Callable[[str], None] = field(default=lambda _text: None)


class Sender:
    """Sends one file to one upload session."""

    def __init__(
        self,
        web: aiohttp.ClientSession,
        url: str,
        token: str,
        prefixes: Prefixes,
        *,
        filename: str,
        progress: Progress,
        patience: float = 120.0,
        backoff: Backoff = BACKOFF,
    ) -> None:
        self._web = web
        self._url = url
        self._put_url = f"{url}?{urlencode({'filename': filename})}"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._prefixes = prefixes
        self._path: Path = prefixes.path
        self._size = prefixes.size
        self._progress = progress
        self._patience = patience
        self._backoff = backoff
        self._unanswered = 0

    async def held(self) -> Held:
        """Ask how much the gateway has.

        Broken when it does not answer, Complete when nothing is missing, Failure when it refuses.
        """
        timeout = aiohttp.ClientTimeout(total=30, sock_connect=10)
        async with self._request("HEAD", self._url, timeout=timeout) as answer:
            offset = answer.headers.get("Upload-Offset", "0")
            return Held(int(offset) if offset.isdigit() else 0, answer.headers.get("Upload-Digest"))

    async def send(self) -> Receipt:
        """Send the whole file and return when the gateway has committed it; Failure when that cannot be."""
        failures, furthest, since, told = 0, -1, 0.0, ""
        while True:
            try:
                offset = await self._start()
                if offset > furthest:
                    failures, furthest = 0, offset
                return await self._put(offset)
            except Complete:
                self._progress.moved(self._size)
                return Receipt(await self._prefixes.digest(self._size), self._size)
            except Broken as error:
                self._prefixes.check()
                now = time.monotonic()
                since = since if failures else now  # patience counts from the first failure after progress
                failures += 1
                if now - since > self._patience:
                    raise Failure(
                        "The upload was interrupted",
                        f"for {self._patience:.0f} s no further byte arrived ({error})",
                        "Run the same command again, it continues where this one stopped",
                    ) from error
                if told != (told := str(error)):
                    self._progress.noted(f"interrupted ({error}), trying again")
                await asyncio.sleep(max(self._backoff.delay(failures), error.retry_after or 0.0))

    async def _start(self) -> int:
        """Return where to continue: behind what the gateway has, if that is the beginning of this file."""
        held = await self.held()
        if not 0 < held.offset <= self._size:
            return 0
        if held.digest != await self._prefixes.digest(held.offset):
            self._progress.noted("the gateway holds a part of another file, starting over")
            return 0
        return held.offset

    async def _put(self, offset: int) -> Receipt:
        """Send what follows the offset.

        A request whose connection broke may reach the gateway later than the one that repeats it, which is
        then refused as the older one. Each of ours that had no answer excuses one such refusal.
        """
        try:
            return await self._sent(offset)
        except TakenOver as error:
            if not self._unanswered:
                raise
            self._unanswered -= 1
            raise Broken("an earlier request of this upload came late") from error
        except Broken as error:
            self._unanswered += not error.answered
            raise

    async def _sent(self, offset: int) -> Receipt:
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(self._size - offset)}
        if offset:
            last = max(offset, self._size - 1)
            headers["Content-Range"] = f"bytes {offset}-{last}/{self._size}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=ANSWER_SECONDS)
        try:
            async with asyncio.timeout(STALL_SECONDS) as stall:
                body = self._body(offset, stall)
                async with self._request(
                    "PUT", self._put_url, headers=headers, data=body, timeout=timeout
                ) as answer:
                    return await self._receipt(answer)
        except TimeoutError as error:
            raise Broken("no byte moved for a minute") from error

    async def _body(self, offset: int, stall: asyncio.Timeout) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        async for chunk in self._prefixes.chunks(offset, CHUNK):
            stall.reschedule(loop.time() + STALL_SECONDS)
            yield chunk
            offset += len(chunk)
            self._progress.moved(offset)
        # Everything is handed over; what remains is the gateway's commit.
        stall.reschedule(loop.time() + ANSWER_SECONDS)

    async def _receipt(self, answer: aiohttp.ClientResponse) -> Receipt:
        try:
            receipt = msgspec.json.decode(await _said(answer), type=Receipt)
        except msgspec.DecodeError as error:
            raise Failure(
                "The gateway's answer cannot be read", str(error), "Check the address of the upload"
            ) from error
        if receipt.digest != await self._prefixes.digest(self._size):
            raise Failure(
                "What arrived is not the file",
                f"its digest is {receipt.digest}",
                "Was the file changed meanwhile? Delete the model, create it again and repeat the upload",
            )
        return receipt

    @contextlib.asynccontextmanager
    async def _request(
        self,
        method: str,
        url: str,
        *,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - handed to the client, which has several
        headers: Mapping[str, str] | None = None,
        data: AsyncIterator[bytes] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            async with self._web.request(
                method,
                url,
                headers={**self._headers, **(headers or {})},
                data=data,
                timeout=timeout,
                allow_redirects=False,
            ) as answer:
                if answer.status >= _REFUSED:
                    raise await _refused(answer)
                yield answer
        except aiohttp.ClientConnectorCertificateError as error:
            raise Failure(
                f"The certificate of {self._web_host()} is not trusted",
                str(error.certificate_error),
                "Is something between you and the cluster? The Secret of the upload has the right ca.crt",
            ) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Broken(f"{type(error).__name__}: {error}".rstrip(": ")) from error

    def _web_host(self) -> str:
        return self._url.split("/")[2]


async def _said(answer: aiohttp.ClientResponse) -> bytes:
    """Return the body, however many pieces it comes in."""
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) >= _LONGEST_ANSWER:
            break
    return bytes(body)


async def _refused(answer: aiohttp.ClientResponse) -> Exception:
    """Tell what may pass from what may not, in the gateway's own words."""
    if answer.status == _CONFLICT and answer.method == "HEAD":
        return Complete()
    try:
        refusal = msgspec.json.decode(await _said(answer), type=_Refusal)
    except msgspec.DecodeError:
        otherwise = (f"the answer is {answer.status} {answer.reason}", "")
        refusal = _Refusal("", *_MEANINGS.get(answer.status, otherwise))
    if refusal.reason == _RECEIVED:
        return Complete()
    if answer.status in _PASSING:
        after = answer.headers.get("Retry-After", "")
        return Broken(refusal.message, float(after) if after.isdecimal() else None, answered=True)
    code = {400: Exit.USAGE, 401: Exit.DENIED, 403: Exit.DENIED, 409: Exit.FAILED}.get(
        answer.status, Exit.IMPOSSIBLE
    )
    kind = TakenOver if refusal.reason == _TAKEN_OVER else Failure
    return kind(
        "The gateway refuses the upload", refusal.message, refusal.next_step, code=code, detail=refusal.reason
    )
