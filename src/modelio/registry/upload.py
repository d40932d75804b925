"""Upload sessions: bytes go up in one streamed PATCH, and go on where the registry says it is.

What belongs here: one blob on its way up. What does not: where its bytes come from.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from modelio.registry.body import StreamedBody
from modelio.registry.errors import (
    NotFound,
    ProtocolViolation,
    RegistryError,
    SessionLost,
    TransferStalled,
)
from modelio.registry.persistence import Persistence
from modelio.wire import (
    ATTEMPT_HEADER,
    DIGEST_HEADER,
    LENGTH_HEADER,
    OFFSET_HEADER,
    RESTART_HEADER,
    RESUME_KEY_HEADER,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from modelio.registry.transport import Transport


class UploadSession:
    """A session that this attempt owns; ``offset`` is what the registry has, by its own word.

    ``digest_so_far`` is the digest of those bytes when the registry tells it, else None.
    """

    def __init__(self, transport: Transport, repository: str, headers: Mapping[str, str]) -> None:
        self.repository = repository
        self.offset = 0
        self.attempt = 1
        self.digest_so_far: str | None = None
        self._transport = transport
        self._location = ""
        self._take(headers)

    @classmethod
    async def open(
        cls,
        transport: Transport,
        repository: str,
        *,
        resume_key: str | None,
        length: int | None,
        restart: bool,
    ) -> UploadSession:
        """Create the session of the resume key, or take it over from an older attempt."""
        headers = {}
        if resume_key is not None:
            headers[RESUME_KEY_HEADER] = resume_key
        if length is not None:
            headers[LENGTH_HEADER] = str(length)
        if restart:
            headers[RESTART_HEADER] = "true"
        answer = await transport.call(
            "POST", f"/v2/{repository}/blobs/uploads/", ok={202}, headers=headers, body=b""
        )
        session = cls(transport, repository, answer.headers)
        if session.offset:
            await session.refresh()
        return session

    async def send(self, source: AsyncIterator[bytes], *, length: int | None = None) -> int:
        """Send the bytes that follow ``offset`` and return the new offset; the source is closed in any case.

        Back-pressure is the connection's: the source is asked for the next piece when the last one is on
        its way. The source's own error is raised as it is. After an error ``refresh`` tells what arrived; a
        source cannot be read twice, so going on is the caller's affair (or ``send_from``'s).
        """
        headers = {"Content-Type": "application/octet-stream"}
        if length is not None:
            headers["Content-Range"] = f"{self.offset}-{self.offset + length - 1}"
        try:
            async with asyncio.timeout(None) as limit:
                body = StreamedBody(source, length, limit, self._transport.patience.stall)
                try:
                    async with self._transport.stream(
                        "PATCH", self._location, ok={202}, headers=headers, body=body
                    ) as response:
                        self._take(response.headers)
                finally:
                    await body.finish()
        except TimeoutError as error:
            raise TransferStalled(f"the registry took no more bytes of {self.repository}") from error
        except RegistryError as error:
            if body.source_error is not None:
                raise body.source_error from error
            raise
        return self.offset

    async def send_from(
        self, open_at: Callable[[int], AsyncIterator[bytes]], *, length: int | None = None
    ) -> int:
        """Send all that ``open_at(offset)`` yields, going on after lost connections; ``length``: the blob's.

        Patience counts from the first failure after the last progress.
        """
        persistence = Persistence(self._transport.patience)
        while length is None or self.offset < length:
            begun = self.offset
            try:
                return await self.send(
                    open_at(self.offset), length=None if length is None else length - self.offset
                )
            except RegistryError as error:
                failure = error
            if isinstance(failure, SessionLost):  # a new attempt's session, or only another offset: ask
                await self.refresh()
            await persistence.bear(failure, hopeful=isinstance(failure, SessionLost))
            await self.refresh()
            if self.offset > begun:
                persistence.moved()
        return self.offset

    async def refresh(self) -> None:
        """Ask the registry for offset and digest so far."""
        answer = await self._transport.call("GET", self._location, ok={204})
        self._take(answer.headers)

    async def close(self, digest: str) -> None:
        """Commit the bytes sent as the blob ``digest``; DigestMismatch leaves the session usable.

        Repeatable: a session that this digest has already closed stays closed.
        """
        separator = "&" if "?" in self._location else "?"
        try:
            await self._transport.call(
                "PUT", f"{self._location}{separator}digest={digest}", ok={201}, body=b""
            )
        except NotFound:
            head = f"/v2/{self.repository}/blobs/{digest}"
            await self._transport.call("HEAD", head, ok={200})

    async def cancel(self) -> None:
        """Void the session and its bytes; one that is gone already is fine."""
        await self._transport.call("DELETE", self._location, ok={204, 202, 404})

    def _take(self, headers: Mapping[str, str]) -> None:
        self._location = headers.get("Location", "") or self._location
        if not self._location:
            raise ProtocolViolation(f"the registry named no Location for the upload to {self.repository}")
        self.offset = _offset(headers)
        self.attempt = _number(headers, ATTEMPT_HEADER) or self.attempt
        self.digest_so_far = headers.get(DIGEST_HEADER)


def _offset(headers: Mapping[str, str]) -> int:
    """Read our own header, else OCI's Range, whose end is inclusive and ``0-0`` when nothing is there."""
    if (offset := _number(headers, OFFSET_HEADER)) is not None:
        return offset
    end = headers.get("Range", "0-0").rpartition("-")[2]
    if not end.isdecimal():
        raise ProtocolViolation(f"the registry's Range {headers.get('Range')!r} is not a range")
    return int(end) + 1 if int(end) > 0 else 0


def _number(headers: Mapping[str, str], name: str) -> int | None:
    value = headers.get(name)
    if value is None:
        return None
    if not value.isdecimal():
        raise ProtocolViolation(f"the registry's {name} {value!r} is not a number")
    return int(value)
