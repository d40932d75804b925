"""Running a process's main coroutine until the process is asked to end.

What belongs here: event loop, signals, settings errors as an exit code. What does not: what the process does.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Any

import uvloop

from opskit.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

WRONG_SETTINGS = 2


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Await ``main()`` until it ends or SIGTERM or SIGINT cancels it, and return the exit code.

    Settings that are wrong are one line on standard error and exit code 2; any other error is raised.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_until_signal(main))
        except SettingsError as error:
            print(error, file=sys.stderr)  # noqa: T201 - there may be no log yet
            return WRONG_SETTINGS
    return 0


async def _until_signal(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = asyncio.get_running_loop()
    running = loop.create_task(main())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        if not running.cancelled():
            raise
