"""``python -m aimodels.delivery.copy``: fills the mounted claim and ends.

How it ends is told as ``jobs.worker`` says; what is on the volume is continued by the next attempt.
"""

from __future__ import annotations

import sys
import time

from aimodels.delivery.copy.fill import Filler
from aimodels.delivery.copy.journal import COMPLETE, Journal
from aimodels.delivery.copy.plan import fetch_plan
from aimodels.delivery.copy.settings import Settings
from aimodels.delivery.copy.sink import AT_ONCE, Sink
from aimodels.delivery.copy.volume import Volume
from aimodels.jobs import worker
from opskit import logging

_log = logging.logger(__name__)


def main() -> int:
    """Run one attempt and return its exit code."""
    return worker.run("copy", Settings, copy)


async def copy(chosen: Settings) -> None:
    """Fill the volume, or return at once when it is filled already."""
    begun = time.monotonic()
    with Volume.open(chosen.target) as volume, Journal.open(volume, chosen.digest) as journal:
        if COMPLETE in journal.done:
            _log.info("the volume is filled already")
            return
        async with worker.client(chosen) as client:
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


if __name__ == "__main__":
    sys.exit(main())
