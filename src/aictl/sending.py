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

from aictl.exits import Failure
from aictl.gateway import REFUSED, Broken, Complete, TakenOver, refused, said
from opskit.retry import Backoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from aictl.prefixes import Prefixes

CHUNK = 1 << 20
STALL_SECONDS = 60.0
ANSWER_SECONDS = 300.0
#: how much later than its repetition a request may reach the gateway
LATE_SECONDS = 30.0
BACKOFF = Backoff(first=0.5, most=15.0)


class Held(msgspec.Struct, frozen=True):
    """What the gateway has of the file."""

    offset: int
    digest: str | None


class Receipt(msgspec.Struct, frozen=True, rename="camel"):
    """The gateway's answer to a whole file."""

    digest: str
    size_bytes: int


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
        self._late_until = 0.0

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
        then refused as the older one. The latest of ours that had no answer excuses one such refusal, for as
        long as a request may be on its way; what holds other bytes by then is somebody else's.
        """
        try:
            return await self._sent(offset)
        except TakenOver as error:
            if time.monotonic() > self._late_until or not await self._is_ours():
                raise
            self._late_until = 0.0
            raise Broken("an earlier request of this upload came late") from error
        except Broken as error:
            if not error.answered:
                self._late_until = time.monotonic() + LATE_SECONDS
            raise

    async def _is_ours(self) -> bool:
        """Tell whether the gateway is known to hold the beginning of this file, or nothing."""
        try:
            held = await self.held()
        except Broken:
            return False
        return not held.offset or held.digest == await self._prefixes.digest(min(held.offset, self._size))

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
            receipt = msgspec.json.decode(await said(answer), type=Receipt)
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
                if answer.status >= REFUSED:
                    raise await refused(answer)
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
