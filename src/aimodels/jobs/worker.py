"""How the program in a Job's Pod begins and ends.

What belongs here: settings that every one has, exit codes, the reason that the controller reads from the
termination message. What does not: the work.

Exit code 0: done. 3: it cannot be done, the termination message says why. Anything else: trying again may
help, and goes on where the last attempt was.

Error tree::

    Refused         trying again cannot help; ``reason`` is a word of the closed vocabularies
    Interrupted     this attempt cannot go on, another one may
"""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import uvloop

from modelio.registry import GrantSource, RegistryClient, RegistryError
from opskit import logging, settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

#: the kubelet keeps 4096 bytes of a termination message: room for so many characters of any kind
_LONGEST = 1000
_log = logging.logger(__name__)


class Exit(IntEnum):
    """Exit codes; everything but DONE and PERMANENT means that another attempt may succeed."""

    DONE = 0
    TRANSIENT = 1
    WRONG_SETTINGS = 2
    PERMANENT = 3


class Refused(Exception):
    """It cannot be done as things are; the message says what, why and the next step."""

    reason: str


class Interrupted(Exception):
    """This attempt cannot go on, another one may."""


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where DMCR is, on whose behalf it is asked, about which repository.

    transfer: whose grants are asked for with the token file; without a token file the registry is open.
    """

    dmcr_url: str
    repository: str
    transfer: str = ""
    ca_file: Path | None = None
    token_file: Path | None = None
    termination_file: Path = Path("/dev/termination-log")
    log_level: str = "info"


S = TypeVar("S", bound=WorkerSettings)


def run(name: str, kind: type[S], work: Callable[[S], Awaitable[None]]) -> int:
    """Do the work with the settings from the variables ``<NAME>_*``, and return the exit code."""
    try:
        chosen = settings.load(kind, prefix=f"{name.upper()}_")
        logging.configure(name, chosen.log_level)
    except (settings.SettingsError, ValueError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - there is no log yet
        return Exit.WRONG_SETTINGS
    _log.info("begun", **settings.describe(chosen))
    try:
        uvloop.run(_stoppable(work, chosen))
    except Refused as error:
        _log.error("refused", reason=error.reason, err=error)
        tell(chosen.termination_file, error.reason, str(error))
        return Exit.PERMANENT
    except (RegistryError, Interrupted, OSError) as error:
        _log.error("interrupted", err=error)
        tell(chosen.termination_file, "", str(error))
        return Exit.TRANSIENT
    return Exit.DONE


def client(chosen: WorkerSettings) -> RegistryClient:
    """Return the client of DMCR that the settings describe."""
    tls = ssl.create_default_context(cafile=str(chosen.ca_file)) if chosen.ca_file else None
    auth = GrantSource(chosen.token_file, chosen.transfer or None) if chosen.token_file else None
    return RegistryClient(chosen.dmcr_url, tls=tls, auth=auth)


def tell(file: Path, reason: str, message: str) -> None:
    """Leave the reason where the kubelet looks; without such a file the log has to do."""
    text = "".join(one if one.isprintable() else " " for one in message[:_LONGEST])
    if not file.exists():
        return
    try:
        file.write_bytes(msgspec.json.encode({"reason": reason, "message": text}))
    except OSError as error:
        _log.warning("no termination message", err=error)


async def _stoppable(work: Callable[[S], Awaitable[None]], chosen: S) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _stop)
    await work(chosen)


def _stop() -> None:
    """End at once: the first process of a container has to do it itself, and no state is lost by it."""
    _log.info("stopped")
    os._exit(Exit.TRANSIENT)
