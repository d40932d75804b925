"""``python -m aimodels.publication``: publishes one upload and ends.

Exit code 0: done. 3: it cannot be published, the termination message says why. Anything else: try again;
what is stored is found again.
"""

from __future__ import annotations

import ssl
import sys
import time

import msgspec
import uvloop

from aimodels.api.reasons import ModelReason, SourceType
from aimodels.publication.outcome import Exit, Interrupted, Refused, tell
from aimodels.publication.publish import publish
from aimodels.publication.settings import Settings, Source
from modelio.registry import GrantSource, RegistryClient, RegistryError
from opskit import logging, settings

_log = logging.logger(__name__)


def main() -> int:
    """Run one attempt and return its exit code."""
    try:
        chosen = settings.load(Settings, prefix="PUBLICATION_")
        logging.configure("publication", chosen.log_level)
    except (settings.SettingsError, ValueError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - there is no log yet
        return Exit.WRONG_SETTINGS
    _log.info("publication begins", **settings.describe(chosen))
    try:
        uvloop.run(_run(chosen))
    except Refused as error:
        _log.error("publication refused", reason=error.reason, err=error)
        tell(chosen.termination_file, error.reason, str(error))
        return Exit.PERMANENT
    except (RegistryError, Interrupted, OSError) as error:
        _log.error("publication interrupted", err=error)
        tell(chosen.termination_file, "", str(error))
        return Exit.TRANSIENT
    return Exit.DONE


async def _run(chosen: Settings) -> None:
    began = time.monotonic()
    _check_source(chosen.source)
    async with _client(chosen) as client:
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


def _client(chosen: Settings) -> RegistryClient:
    tls = ssl.create_default_context(cafile=str(chosen.ca_file)) if chosen.ca_file else None
    auth = GrantSource(chosen.token_file, chosen.transfer) if chosen.token_file else None
    return RegistryClient(chosen.dmcr_url, tls=tls, auth=auth)


if __name__ == "__main__":
    sys.exit(main())
