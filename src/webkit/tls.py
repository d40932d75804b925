"""Certificate files of a listener, read again when they change."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opskit import logging

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

_LOG = logging.logger(__name__)

#: The kubelet refreshes mounted Secrets about once a minute; looking more often costs two stat calls.
LOOK_EVERY = 5.0


@dataclass(frozen=True)
class TlsFiles:
    """PEM files of a certificate chain and its key, as a ``kubernetes.io/tls`` Secret mounts them."""

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Return a server context (TLS 1.2 and later) with these files."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.load_into(context)
        return context

    def load_into(self, context: ssl.SSLContext) -> None:
        """Let a living context present these files from the next handshake on."""
        context.load_cert_chain(self.certificate, self.key)

    def state(self) -> tuple[tuple[int, int], ...]:
        """Return something that changes when a file is replaced."""
        found = (self.certificate.stat(), self.key.stat())
        return tuple((stat.st_ino, stat.st_mtime_ns) for stat in found)


async def watch(files: TlsFiles, reload: Callable[[], None], every: float = LOOK_EVERY) -> None:
    """Call ``reload`` after each change, for ever; files that are half replaced are tried again."""
    served = files.state()
    while True:
        await asyncio.sleep(every)
        try:
            found = files.state()
            if found == served:
                continue
            reload()
        except (OSError, ssl.SSLError) as error:
            _LOG.warning("new certificate not usable yet, the old one stays", err=error)
        else:
            served = found
            _LOG.info("certificate changed", certificate=str(files.certificate))


@contextlib.asynccontextmanager
async def watched(files: TlsFiles | None, reload: Callable[[], None]) -> AsyncIterator[None]:
    """Look at the certificate files, if there are any, while the body runs."""
    watching = asyncio.create_task(watch(files, reload)) if files else None
    try:
        yield
    finally:
        if watching:
            watching.cancel()
            await asyncio.wait({watching})
