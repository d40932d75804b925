"""``python -m aimodels.delivery.copy``: fills the mounted claim and ends.

Exit code 0: done. 3: it cannot be done, the termination message says why. Anything else: try again; what is
on the volume is continued.
"""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
import time

import uvloop

from aimodels.delivery.copy.fill import Filler
from aimodels.delivery.copy.journal import COMPLETE, Journal
from aimodels.delivery.copy.outcome import Exit, Mismatch, Refused, tell
from aimodels.delivery.copy.plan import fetch_plan
from aimodels.delivery.copy.settings import Settings
from aimodels.delivery.copy.sink import AT_ONCE, Sink
from aimodels.delivery.copy.volume import Volume
from modelio.registry import GrantSource, RegistryClient, RegistryError
from opskit import logging, settings

_log = logging.logger(__name__)


def main() -> int:
    """Run one attempt and return its exit code."""
    try:
        chosen = settings.load(Settings, prefix="COPY_")
        logging.configure("copy", chosen.log_level)
    except (settings.SettingsError, ValueError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - there is no log yet
        return Exit.WRONG_SETTINGS
    _log.info("copy begins", **settings.describe(chosen))
    try:
        uvloop.run(copy(chosen))
    except Refused as error:
        _log.error("copy refused", reason=error.reason, err=error)
        tell(chosen.termination_file, error.reason, str(error))
        return Exit.PERMANENT
    except (RegistryError, Mismatch, OSError) as error:
        _log.error("copy interrupted", err=error)
        tell(chosen.termination_file, "", str(error))
        return Exit.TRANSIENT
    return Exit.DONE


async def copy(chosen: Settings) -> None:
    """Fill the volume, or return at once when it is filled already."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _stop)
    begun = time.monotonic()
    with Volume.open(chosen.target) as volume, Journal.open(volume, chosen.digest) as journal:
        if COMPLETE in journal.done:
            _log.info("the volume is filled already")
            return
        async with _client(chosen) as client:
            plan = await fetch_plan(client, chosen.repository, chosen.digest)
            async with client.direct_reads(AT_ONCE) as reads:
                with Sink() as sink:
                    filler = Filler(reads, chosen.repository, plan, volume=volume, sink=sink)
                    await filler.fill(journal)
    _log.info(
        "copy done",
        bytes=plan.needed_bytes(),
        direct=volume.direct,
        duration_ms=round((time.monotonic() - begun) * 1000),
    )


def _stop() -> None:
    """End at once: the first process of a container has to do it itself, and no state is lost by it."""
    _log.info("copy stopped")
    os._exit(Exit.TRANSIENT)


def _client(chosen: Settings) -> RegistryClient:
    tls = ssl.create_default_context(cafile=str(chosen.ca_file)) if chosen.ca_file else None
    auth = GrantSource(chosen.token_file, chosen.transfer) if chosen.token_file else None
    return RegistryClient(chosen.dmcr_url, tls=tls, auth=auth)


if __name__ == "__main__":
    sys.exit(main())
