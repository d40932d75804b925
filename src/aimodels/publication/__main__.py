"""``python -m aimodels.publication``: publishes one upload and ends.

How it ends is told as ``jobs.worker`` says; what is stored is found again by the next attempt.
"""

from __future__ import annotations

import sys
import time

import msgspec

from aimodels.api.reasons import ModelReason, SourceType
from aimodels.jobs import worker
from aimodels.publication.outcome import Refused
from aimodels.publication.publish import publish
from aimodels.publication.settings import Settings, Source
from opskit import logging

_log = logging.logger(__name__)


def main() -> int:
    """Run one attempt and return its exit code."""
    return worker.run("publication", Settings, _publish)


async def _publish(chosen: Settings) -> None:
    began = time.monotonic()
    _check_source(chosen.source)
    async with worker.client(chosen) as client:
        digest = await publish(client, chosen.repository, owner_of(chosen.transfer))
    _log.info(
        "publication done",
        model=chosen.model_name,
        digest=digest,
        duration_ms=round((time.monotonic() - began) * 1000),
    )


def _check_source(text: str) -> None:
    try:
        source = msgspec.json.decode(text, type=Source)
    except msgspec.MsgspecError as error:
        raise Refused(ModelReason.UNSUPPORTED_SOURCE, f"The source cannot be read: {error}.") from error
    if source.type != SourceType.UPLOAD:
        raise Refused(
            ModelReason.UNSUPPORTED_SOURCE, f"Sources of type {source.type[:40]!a} are not served yet."
        )


def owner_of(transfer: str) -> str:
    """Return what all attempts at one model share: the transfer's name up to its generation."""
    return transfer.rpartition("-g")[0] or transfer


if __name__ == "__main__":
    sys.exit(main())
