"""Looks after one nginx: starts it, keeps its keys, lets it finish, and ends when it ends.

What belongs here: processes, signals, the folder they share. What does not: what nginx is told (``config``).

A Pod that is deleted ends its runtime first and the gate after it, which would cut every answer that is on
its way. So the runtime's preStop hook asks the gate to drain and waits for its answer: new connections are
taken for a moment, until everybody knows that the Pod is going, then none, and the answer comes when the last
request is over. The hook also runs when a runtime alone is ended, because it is stuck: no signal to the gate
follows then, and it opens again.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from . import keys
from .config import KEYS_FOLDER, Settings, render

_HEAD_LIMIT = 8192
_HEAD_SECONDS = 5
_CONFIG = "nginx.conf"


@dataclass(frozen=True)
class Duties:
    """What there is to look after beside nginx."""

    #: where the Secret is mounted; None when no key is asked for
    secret: Path | None
    #: how often the mounted Secret is looked at
    key_seconds: float
    drain_host: str | None
    drain_port: int
    #: known to the runtime's hook only; None: nobody can ask to drain
    drain_path: str | None
    #: how long connections are still taken after a drain began
    settle_seconds: float
    #: how long after a drain the gate opens again, when it was not ended
    resume_seconds: float


def say(level: str, message: str, **more: object) -> None:
    """Write one line of the log."""
    line = {"ts": datetime.now(UTC).isoformat(), "level": level, "component": "gate", "msg": message, **more}
    print(json.dumps(line), file=sys.stderr, flush=True)


class Supervisor:
    """Runs a gate until it is told to stop, or until nginx ends by itself."""

    def __init__(self, settings: Settings, duties: Duties) -> None:
        self._settings = settings
        self._duties = duties
        self._folder = Path(settings.directory)
        self._stop = asyncio.Event()
        self._drain = asyncio.Event()
        self._drained = asyncio.Event()
        self._told = ""

    async def run(self) -> int:
        """Return 0 after an end that was asked for."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._folder / _CONFIG).write_text(render(self._settings))
        keys.keep(self._folder / KEYS_FOLDER, frozenset())
        self._look_at_keys()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        looking = asyncio.create_task(self._keep_looking())
        listener = await self._listen()
        try:
            while (code := await self._serve()) is None:
                say("info", "open again")
            return code
        finally:
            looking.cancel()
            if listener:
                listener.close()
                await listener.wait_closed()

    async def _serve(self) -> int | None:
        """Run nginx until it ends or has to; None when it is to be started again."""
        self._drain.clear()
        self._drained = asyncio.Event()
        nginx = await asyncio.create_subprocess_exec(*self._command(), start_new_session=True)
        ended = asyncio.create_task(nginx.wait())
        told = [asyncio.create_task(event.wait()) for event in (self._stop, self._drain)]
        await asyncio.wait([ended, *told], return_when=asyncio.FIRST_COMPLETED)
        for task in told:
            task.cancel()
        if ended.done():
            say("error", "nginx ended by itself", code=ended.result())
            with suppress(ProcessLookupError):  # a worker may outlive the one that has started it
                os.killpg(nginx.pid, signal.SIGKILL)
            return ended.result() or 1
        nginx.send_signal(signal.SIGQUIT)
        await ended
        say("info", "every request is over")
        self._drained.set()
        return 0 if await self._stopped_within(self._duties.resume_seconds) else None

    async def _stopped_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)
        return self._stop.is_set()

    def _command(self) -> list[str]:
        words = ["nginx", "-e", "stderr", "-p", str(self._folder), "-c", str(self._folder / _CONFIG)]
        # Started by root, nginx would work as another user, who may not look at the keys.
        return words if os.geteuid() else [*words, "-g", "user root;"]

    async def _keep_looking(self) -> None:
        while self._duties.secret:
            await asyncio.sleep(self._duties.key_seconds)
            self._look_at_keys()

    def _look_at_keys(self) -> None:
        """Take the Secret's keys over; while it cannot be read, those that count already go on counting."""
        if not self._duties.secret:
            return
        try:
            wanted = keys.read(self._duties.secret)
        except (keys.BadKey, OSError) as error:
            if str(error) != self._told:
                say("error", "the keys cannot be read", err=str(error))
            self._told = str(error)
            return
        self._told = ""
        if keys.keep(self._folder / KEYS_FOLDER, wanted):
            say("info", "keys changed", keys=len(wanted))

    async def _listen(self) -> asyncio.Server | None:
        if not self._duties.drain_path:
            return None
        return await asyncio.start_server(
            self._asked, self._duties.drain_host, self._duties.drain_port, limit=_HEAD_LIMIT
        )

    async def _asked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            wanted = f"GET {self._duties.drain_path} ".encode()
            if hmac.compare_digest(head[: len(wanted)], wanted):
                await self._finish()
                status = b"200 OK"
            else:
                status = b"404 Not Found"
            writer.write(b"HTTP/1.1 %b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status)
            await writer.drain()
        writer.close()

    async def _finish(self) -> None:
        say("info", "draining")
        await self._stopped_within(self._duties.settle_seconds)
        drained = self._drained
        self._drain.set()
        await drained.wait()
