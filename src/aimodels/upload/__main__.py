"""``python -m aimodels.upload``: the upload gateway as a process."""

from __future__ import annotations

import asyncio
import sys

from aimodels.upload.access import Door
from aimodels.upload.app import App
from aimodels.upload.receiving import Receiver
from aimodels.upload.settings import Settings
from modelio.registry import Patience, RegistryClient
from opskit import logging, process, settings
from opskit.clock import SystemClock
from webkit import byteserver, tls

_LOG = logging.logger(__name__)

#: The person at the other end sees "try again" soon; their client is the one that has patience.
_PATIENCE = Patience(connect=5.0, stall=60.0, retry=15.0)


async def serve() -> None:
    """Serve until cancelled; bodies at work are ended with an answer that tells how to go on."""
    chosen = settings.load(Settings, prefix="UPLOAD_")
    logging.configure("upload-gateway", chosen.log_level)
    _LOG.info("starting", **settings.describe(chosen))
    host, port = chosen.address()
    trust = tls.trust(chosen.ca_file)
    receiver, clock = Receiver(), SystemClock()
    ca_files = (chosen.ca_file,) if chosen.ca_file else ()
    async with (
        RegistryClient(chosen.dmcr_url, tls=trust, patience=_PATIENCE) as registry,
        tls.watched(ca_files, lambda: trust.load_verify_locations(chosen.ca_file)),
    ):
        app = App(Door(registry, chosen.token_file, clock), receiver, clock, chosen.idle_seconds)
        try:
            await byteserver.serve(
                app, host=host, port=port, tls=chosen.tls(), started=_started, stopping=receiver.stop
            )
        except asyncio.CancelledError:
            _LOG.info("ended")
            raise


def _started(port: int) -> None:
    _LOG.info("serving", port=port)


if __name__ == "__main__":
    sys.exit(process.run(serve))
