"""The program that runs the layers: what it has started ends with it, and in good order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 60
#: two lanes, one of them with processes of its own
PROGRAM = """
import sys
from tools import run_tests
from tools.run_tests import Layer
folder = sys.argv.pop()
run_tests.LAYERS = {
    "alone": Layer((f"{folder}/alone",), needs_node=True),
    "shared": Layer((f"{folder}/shared",), 2),
}
sys.exit(run_tests.main())
"""
ENDLESS = """
import time
from pathlib import Path
import pytest

@pytest.fixture
def mess():
    Path(__file__).with_name("made").touch()
    yield
    Path(__file__).with_name("cleaned").touch()

def test_endless(mess):
    time.sleep(1000)
"""


def test_what_runs_cleans_up_and_ends_when_the_program_is_ended(tmp_path: Path) -> None:
    for layer in ("alone", "shared"):
        (tmp_path / layer).mkdir()
        (tmp_path / layer / f"test_{layer}.py").write_text(ENDLESS)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    quick = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist.plugin"}
    environment = {**os.environ, "AI_MODULES_KEEP": "1", "PYTHONPATH": str(ROOT), **quick}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as program:
        deadline = time.monotonic() + SECONDS
        while len(list(tmp_path.glob("*/made"))) < 2:
            assert program.poll() is None
            assert time.monotonic() < deadline, "the layers have not begun"
            time.sleep(0.05)
        program.send_signal(signal.SIGTERM)
        _, told = program.communicate(timeout=SECONDS)
    assert program.returncode == 130
    assert "run_tests: interrupted" in told
    assert "Traceback" not in told
    assert len(list(tmp_path.glob("*/cleaned"))) == 2
    assert _mentioning(f"{tmp_path}/") == []


def _mentioning(word: str) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found
