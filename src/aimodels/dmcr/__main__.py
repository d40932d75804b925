"""``python -m aimodels.dmcr``: the registry as a process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import TYPE_CHECKING

import uvloop

from aimodels.dmcr.app import App
from aimodels.dmcr.control import Control
from aimodels.dmcr.metering import Metering, flush_at_end
from aimodels.dmcr.owner import Ownership
from aimodels.dmcr.principal import OpenDoor
from aimodels.dmcr.registry import Registry
from aimodels.dmcr.settings import Settings
from aimodels.dmcr.swaps import Swaps
from aimodels.dmcr.transfers import Transfers
from objectstore.opening import open_store
from opskit import logging, settings
from opskit.clock import SystemClock
from webkit import byteserver, health
from webkit.tls import TlsFiles

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aimodels.dmcr.principal import Authenticator
    from aimodels.dmcr.tokens import TokenDesk

_log = logging.logger(__name__)


def main() -> int:
    """Run until SIGTERM; exit code 2 when the settings are wrong."""
    try:
        chosen = settings.load(Settings, prefix="DMCR_")
        logging.configure("dmcr", chosen.log_level)
    except (settings.SettingsError, ValueError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - there is no log yet
        return 2
    _log.info("starting", **settings.describe(chosen))
    uvloop.run(serve(chosen))
    return 0


async def serve(chosen: Settings) -> None:
    """Serve until the process is asked to end; running requests get some seconds."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    host, port = chosen.address()
    files = (
        TlsFiles(chosen.tls_cert_file, chosen.tls_key_file)
        if chosen.tls_cert_file and chosen.tls_key_file
        else None
    )
    async with running(chosen) as app:
        serving = asyncio.create_task(
            byteserver.serve(app, host=host, port=port, tls=files, started=_started)
        )
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not serving.done():
            serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


@contextlib.asynccontextmanager
async def running(chosen: Settings) -> AsyncIterator[App]:
    """Return the application over the store of the settings; release everything at the end."""
    store = open_store(chosen.store, s3=chosen.s3())
    swaps = Swaps(store, SystemClock())
    metering = Metering(swaps)
    registry = Registry(
        swaps,
        metering,
        owner=chosen.owner,
        buffer_bytes=chosen.buffer_bytes,
        idle_seconds=chosen.idle_seconds,
        uniform_parts=chosen.s3_uniform_parts,
    )
    ownership = Ownership(swaps, chosen.owner)
    transfers = Transfers(swaps, registry.repositories, metering.moved)
    await ownership.look()
    tasks = [asyncio.create_task(ownership.run()), asyncio.create_task(metering.run())]
    try:
        async with _identity(chosen, swaps, transfers) as (door, desk):
            control = Control(
                door=door,
                ownership=ownership,
                repositories=registry.repositories,
                sessions=registry.sessions,
                transfers=transfers,
                metering=metering,
                desk=desk,
            )
            yield App(
                registry,
                door,
                ownership,
                [*control.routes(), *health.routes(ready={"store": ownership.unready})],
            )
    finally:
        tasks[0].cancel()
        await flush_at_end(metering, tasks[1])
        registry.close()
        await store.close()


@contextlib.asynccontextmanager
async def _identity(
    chosen: Settings, swaps: Swaps, transfers: Transfers
) -> AsyncIterator[tuple[Authenticator, TokenDesk | None]]:
    """Yield the door, and the desk that issues grants where there is one."""
    if chosen.auth == "none" or chosen.signing_key_file is None:
        yield OpenDoor(), None
        return
    from aimodels.dmcr.desk import grants_identity  # noqa: PLC0415 - a lone registry needs no cluster client

    async with grants_identity(chosen, swaps, transfers) as identity:
        yield identity


def _started(port: int) -> None:
    _log.info("serving", port=port)


if __name__ == "__main__":
    sys.exit(main())
