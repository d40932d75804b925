from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from devcluster.errors import ClusterError
from devcluster.processes import Processes, start_time, wait_until_gone
from devcluster.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

SLEEP = ["sleep", "300"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal\nsignal.signal(15, signal.SIG_IGN)\nprint('ready', flush=True)\nsignal.pause()",
]


@pytest.fixture
def cluster(tmp_path: Path) -> Settings:
    return Settings(tmp_path)


@pytest.fixture
def processes(cluster: Settings) -> Iterator[Processes]:
    made = Processes(cluster)
    yield made
    made.stop(made.names())


def _pid(cluster: Settings, name: str) -> int:
    return int(json.loads((cluster.pids / f"{name}.json").read_text())["pid"])


def test_a_running_process_is_not_started_twice(processes: Processes, cluster: Settings) -> None:
    assert processes.start("one", SLEEP)
    pid = _pid(cluster, "one")
    assert not processes.start("one", SLEEP)
    assert _pid(cluster, "one") == pid


def test_a_process_is_as_nice_as_who_starts_it(
    processes: Processes, cluster: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/proc/self/autogroup").exists():
        pytest.skip("this kernel does not weigh sessions")
    monkeypatch.setattr(os, "getpriority", lambda *_: 5)
    processes.start("one", SLEEP)
    assert Path(f"/proc/{_pid(cluster, 'one')}/autogroup").read_text().split()[-1] == "5"


def test_another_command_finds_and_stops_it(processes: Processes, cluster: Settings) -> None:
    processes.start("one", SLEEP)
    pid = _pid(cluster, "one")
    other = Processes(cluster)
    assert other.is_running("one")
    assert other.resident_megabytes("one") is not None
    other.stop(["one"])
    assert start_time(pid) is None
    assert not other.names()


def test_a_process_that_ignores_the_request_is_killed(
    processes: Processes, cluster: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devcluster.processes.STOP_TIMEOUT", 0.2)
    processes.start("one", STUBBORN)
    log = cluster.logs / "one.log"
    while "ready" not in log.read_text():
        time.sleep(0.01)
    pid = _pid(cluster, "one")
    processes.stop(["one"])
    assert start_time(pid) is None


def test_a_reused_id_is_never_signalled(processes: Processes, cluster: Settings) -> None:
    with subprocess.Popen(SLEEP) as stranger:
        cluster.pids.mkdir(parents=True)
        (cluster.pids / "one.json").write_text(json.dumps({"pid": stranger.pid, "started": "1"}))
        assert not processes.is_running("one")
        processes.stop(["one"])
        assert stranger.poll() is None
        stranger.kill()


def test_an_early_end_shows_the_end_of_the_log(processes: Processes, cluster: Settings) -> None:
    processes.start("one", ["sh", "-c", "echo the reason >&2; exit 3"])
    wait_until_gone([_pid(cluster, "one")], 10)
    with pytest.raises(ClusterError, match=r"(?s)one ended early.*the reason"):
        processes.require("one")


def test_processes_of_a_killed_session_end_with_it(cluster: Settings) -> None:
    program = (
        "import sys, signal; from pathlib import Path;"
        "from devcluster.processes import Processes; from devcluster.settings import Settings;"
        "Processes(Settings(Path(sys.argv[1])), bound_to_parent=True).start('one', ['sleep', '300']);"
        "print('started', flush=True); signal.pause()"
    )
    command = [sys.executable, "-c", program, str(cluster.directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout is not None
        assert session.stdout.readline() == "started\n"
        pid = _pid(cluster, "one")
        assert start_time(pid) is not None
        while b"setpriv" in Path(f"/proc/{pid}/cmdline").read_bytes():
            time.sleep(0.01)  # until then the kernel was not told yet
        os.kill(session.pid, signal.SIGKILL)
    assert not wait_until_gone([pid], 10)
