"""Certificate files of a listener, read again when they change."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opskit import logging

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
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

    def check(self) -> None:
        """Raise OSError, as ``ssl.SSLError`` is one, when certificate and key are not there or no pair."""
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key)

    def load_into(self, context: ssl.SSLContext) -> None:
        """Let a living context present these files from the next handshake on."""
        self.check()  # failing in the middle would leave the new certificate with the old key
        context.load_cert_chain(self.certificate, self.key)

    def paths(self) -> tuple[Path, ...]:
        """Return the files to look at for changes."""
        return (self.certificate, self.key)


def trust(ca_file: Path | None) -> ssl.SSLContext:
    """Return a client context that trusts the file's CAs, or the system's when there is none."""
    return ssl.create_default_context(cafile=ca_file)


async def watch(paths: Sequence[Path], reload: Callable[[], None], every: float | None = None) -> None:
    """Call ``reload`` after each change, for ever; files that are half replaced are tried again."""
    served = _state(paths)
    while True:
        await asyncio.sleep(every or LOOK_EVERY)
        try:
            found = _state(paths)
            if found == served:
                continue
            reload()
        except OSError as error:
            _LOG.warning("new certificate not usable yet, the old one stays", err=error)
        else:
            served = found
            _LOG.info("certificate changed", files=[str(path) for path in paths])


def _state(paths: Sequence[Path]) -> list[tuple[int, int]]:
    """Return something that changes when a file is replaced."""
    return [(stat.st_ino, stat.st_mtime_ns) for stat in (path.stat() for path in paths)]


@contextlib.asynccontextmanager
async def watched(paths: Sequence[Path], reload: Callable[[], None]) -> AsyncIterator[None]:
    """Look at the files, if there are any, while the body runs."""
    watching = asyncio.create_task(watch(paths, reload)) if paths else None
    try:
        yield
    finally:
        if watching:
            watching.cancel()
            await asyncio.wait({watching})
