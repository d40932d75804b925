"""Starts and stops the components' processes, and never signals a process of another."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from devcluster.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from devcluster.settings import Settings

#: The API server waits much longer for its watchers to leave, and loses nothing when killed.
STOP_TIMEOUT = 2.0
KILL_TIMEOUT = 10.0
PAUSE = 0.02
LOG_TAIL_LINES = 15
#: Go's collector runs less often: a tenth less processor time for a start, a quarter more memory.
FRUGAL = {"GOGC": "300"}
#: The kernel then ends the process with the one that started it.
BOUND_TO_PARENT = ("setpriv", "--pdeathsig", "KILL")
#: Fields of /proc/<pid>/stat after the command's name.
STATE, THREADS, START_TIME = 0, 17, 19


class Processes:
    """The cluster's processes: one pid file and one log file for each name."""

    def __init__(self, settings: Settings, *, bound_to_parent: bool = False) -> None:
        self._pids = settings.pids
        self._logs = settings.logs
        self._prefix = BOUND_TO_PARENT if bound_to_parent else ()

    def start(
        self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None
    ) -> bool:
        """Start a process unless the one started earlier still runs; tell whether it did."""
        if self.is_running(name):
            return False
        self._pids.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        with (self._logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*self._prefix, *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**FRUGAL, **os.environ, **(environment or {})},
                start_new_session=True,
            )
        process.returncode = 0  # it outlives this object, which must not warn about that
        weigh(process.pid, os.getpriority(os.PRIO_PROCESS, 0))
        record = {"pid": process.pid, "started": start_time(process.pid)}
        self._pid_file(name).write_text(json.dumps(record))
        return True

    def is_running(self, name: str) -> bool:
        """Tell whether the process started under this name still runs."""
        return self._pid(name) is not None

    def resident_megabytes(self, name: str) -> int | None:
        """Return how much memory the process takes, or None when it does not run."""
        pid = self._pid(name)
        return _resident_megabytes(pid) if pid else None

    def names(self) -> list[str]:
        """Return the names of all processes that were started and not stopped."""
        return sorted(path.stem for path in self._pids.glob("*.json"))

    def pids(self) -> set[int]:
        """Return the ids of the processes that run."""
        return {pid for name in self.names() if (pid := self._pid(name))}

    def stop(self, names: Iterable[str]) -> None:
        """Ask the processes to end, all at once, then insist, one after the other."""
        running = [pid for name in names if (pid := self._pid(name))]
        for pid in running:
            send(pid, signal.SIGTERM)
        wait_until_gone(running, STOP_TIMEOUT)
        for pid in running:
            end_at_once([pid])
        for name in names:
            self._pid_file(name).unlink(missing_ok=True)

    def require(self, *names: str) -> None:
        """Raise with the end of its log if one of the processes has ended."""
        for name in names:
            if not self.is_running(name):
                raise ClusterError(
                    f"{name} ended early; the end of its log ({self._log(name)}):\n{self._log_tail(name)}"
                )

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def _log_tail(self, name: str) -> str:
        log = self._log(name)
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return "\n".join(lines[-LOG_TAIL_LINES:])

    def _pid_file(self, name: str) -> Path:
        return self._pids / f"{name}.json"

    def _pid(self, name: str) -> int | None:
        """Return the process's id, or None if it has ended, even if its id was given anew."""
        try:
            record = json.loads(self._pid_file(name).read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        pid = int(record["pid"])
        return pid if record["started"] is not None and start_time(pid) == record["started"] else None


def weigh(session: int, niceness: int) -> None:
    """Have a session weigh what the niceness of its processes says, which counts inside of it only."""
    if niceness:
        with contextlib.suppress(OSError):  # not every kernel weighs sessions
            Path(f"/proc/{session}/autogroup").write_text(str(niceness))


def end_at_once(pids: Iterable[int]) -> None:
    """Kill processes that belong to this cluster, and see them gone."""
    remaining = list(pids)
    for pid in remaining:
        send(pid, signal.SIGKILL)
    remaining = wait_until_gone(remaining, KILL_TIMEOUT)
    if remaining:
        raise ClusterError(f"processes {remaining} do not end, even when killed")


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended by now."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def wait_until_gone(pids: Iterable[int], timeout: float) -> list[int]:
    """Wait for processes to end; return those that have not."""
    deadline = time.monotonic() + timeout
    remaining = list(pids)
    while remaining := [pid for pid in remaining if not _gone(pid)]:
        if time.monotonic() > deadline:
            break
        time.sleep(PAUSE)
    return remaining


def start_time(pid: int) -> str | None:
    """Return the kernel's start time of a living process, which tells a reused id apart.

    A process whose first thread has ended still holds its ports until the last one has.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    ended = fields[STATE] in "ZX" and int(fields[THREADS]) <= 1
    return None if ended else fields[START_TIME]


def _gone(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return start_time(pid) is None


def _resident_megabytes(pid: int) -> int | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    return None
