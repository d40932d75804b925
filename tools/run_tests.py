"""Runs the test layers and prints one summary; leaves nothing running behind.

A layer is a pytest process of its own, so that a crash of one cannot hide the others. Layers that need the
machine's one node run one after another, and often wait for it; the other layers run beside them, one after
another too. Tests that fail are run once more at the end, alone: what passes then is counted and listed as
unsteady, which is a defect to be found, though not a reason to doubt the product. SIGINT and SIGTERM end
every pytest as Ctrl-C does, so that fixtures clean up.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from devcluster import cluster
from devcluster.processes import weigh
from devcluster.progress import Progress
from devcluster.settings import default_directory, load

ROOT = Path(__file__).resolve().parent.parent
#: for tests/kit/cluster.py: the cluster stays, and the folder that says what is installed there
KEEP, RUN = "AI_MODULES_KEEP", "AI_MODULES_RUN"
INTERRUPTED = 130
#: of the layers beside those of the node, which take longest and often wait
NICENESS = 5


@dataclass(frozen=True)
class Layer:
    """What pytest gets: which tests, and how many processes share their files."""

    tests: tuple[str, ...]
    processes: int = 1
    needs_node: bool = False
    #: They start and remove nodes of their own, while there is no other one.
    own_nodes: bool = False


MACHINE = "tests/component/devcluster/test_residue.py"
LAYERS = {
    "unit": Layer(("tests/unit",), 2),
    "contract": Layer(("tests/contract",), 2),
    "component": Layer(("tests/component", f"--ignore={MACHINE}"), 3),
    "charts": Layer(("tests/charts",), 2),
    "machine": Layer((MACHINE,), needs_node=True, own_nodes=True),
    "e2e": Layer(("tests/e2e", "-m", "not disruptive"), 3, needs_node=True),
    "disruptive": Layer(("tests/e2e", "-m", "disruptive"), needs_node=True),
}


@dataclass(frozen=True)
class Outcome:
    """What one layer did: counts of tests and seconds of wall time."""

    layer: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    status: int
    unsteady: int = 0

    @property
    def good(self) -> bool:
        """True when pytest ended well and something was executed."""
        return self.status == 0 and self.passed > 0


class Node:
    """The cluster that layers share: it is taken down at the end when it was not there before."""

    def __init__(self) -> None:
        self._keep = KEEP in os.environ or load(default_directory()) is not None
        os.environ[KEEP] = "1"

    def down(self) -> None:
        """Take the cluster down if that is ours to do."""
        if not self._keep and load(default_directory()) is not None:
            cluster.down(default_directory(), Progress())


class Run:
    """One run of some layers; its reports and what pytest remembers lie in a folder of its own."""

    def __init__(self, folder: Path, lanes: list[list[str]], node: Node) -> None:
        self._folder = folder
        self._node = node
        self._lanes = lanes
        self._interrupted = threading.Event()
        self._running: list[subprocess.Popen[str]] = []

    def outcomes(self) -> list[Outcome]:
        """Run the lanes beside each other, then what failed in any of them."""
        with ThreadPoolExecutor(len(self._lanes)) as pool:
            running = [pool.submit(self._lane, lane) for lane in self._lanes]
            try:
                done = [outcome for lane in running for outcome in lane.result()]
                os.environ.pop(RUN, None)  # nobody knows what the last tests have left of the modules
                return [self._again(outcome) if outcome.failed else outcome for outcome in done]
            finally:
                self._end()

    def _end(self) -> None:
        """Begin no further layer, and have what runs clean up and end."""
        self._interrupted.set()
        for process in self._running:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGINT)
        for process in self._running:
            process.wait()

    def _lane(self, layers: list[str]) -> list[Outcome]:
        return [self._layer(name) for name in layers if not self._interrupted.is_set()]

    def _layer(self, name: str) -> Outcome:
        layer, report, started = LAYERS[name], self._folder / f"{name}.xml", time.monotonic()
        how = ["-v" if layer.needs_node else "-q"]
        if layer.processes > 1:
            # In the order of collection: by itself the plugin keeps files of few, long tests for the end.
            how += ["-n", str(layer.processes), "--dist", "loadfile", "--no-loadscope-reorder"]
        status = self._pytest(name, *how, report=report)
        passed, failed, skipped = _counts(report)
        return Outcome(name, passed, failed, skipped, time.monotonic() - started, status)

    def _again(self, first: Outcome) -> Outcome:
        print(f"\n--- {first.layer}: what failed, once more and alone", flush=True)
        if LAYERS[first.layer].own_nodes:
            self._node.down()
        report, started = self._folder / f"{first.layer}.again.xml", time.monotonic()
        only = ("-q", "--last-failed", "--last-failed-no-failures=none")
        status = self._pytest(first.layer, *only, report=report)
        unsteady, _, _ = _counts(report)
        return replace(
            first,
            passed=first.passed + unsteady,
            failed=max(0, first.failed - unsteady),
            seconds=first.seconds + time.monotonic() - started,
            status=status,
            unsteady=unsteady,
        )

    def _pytest(self, name: str, *arguments: str, report: Path) -> int:
        """Run pytest; each of its lines says whose it is where several speak at once."""
        memory = f"cache_dir={self._folder / name}"
        words = [*LAYERS[name].tests, *arguments, "-o", memory, f"--junitxml={report}"]
        niceness = 0 if LAYERS[name].needs_node or len(self._lanes) == 1 else NICENESS
        process = subprocess.Popen(
            ["nice", "-n", str(niceness), sys.executable, "-m", "pytest", *words],
            cwd=ROOT,
            # Without compiled files each process would compile every test and plugin for itself.
            env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # A group of its own: what interrupts this program is passed on once, to all of its processes.
            start_new_session=True,
        )
        self._running.append(process)
        weigh(process.pid, niceness)
        assert process.stdout is not None
        self._relay(process.stdout, f"{name:<10}| " if len(self._lanes) > 1 else "")
        return process.wait()

    @staticmethod
    def _relay(lines: IO[str], prefix: str) -> None:
        for line in lines:
            sys.stdout.write(prefix + line)
            sys.stdout.flush()


def main() -> int:
    """Run the layers named on the command line, or all; return 1 when one is not good."""
    wanted = sys.argv[1:] or list(LAYERS)
    unknown = [name for name in wanted if name not in LAYERS]
    if unknown:
        print(f"run_tests: unknown layer {unknown[0]!r}; there are: {', '.join(LAYERS)}", file=sys.stderr)
        return 2
    lanes = [[name for name in wanted if LAYERS[name].needs_node is needed] for needed in (False, True)]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    node, started = Node(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ai-modules-tests-") as folder:
        os.environ[RUN] = folder
        try:
            outcomes = Run(Path(folder), [lane for lane in lanes if lane], node).outcomes()
        except KeyboardInterrupt:
            print("\nrun_tests: interrupted", file=sys.stderr)
            return INTERRUPTED
        finally:
            node.down()
        _summary(outcomes, time.monotonic() - started)
    return 0 if all(one.good for one in outcomes) else 1


def _counts(report: Path) -> tuple[int, int, int]:
    """Return passed, failed and skipped of a JUnit report; a missing report has no test."""
    if not report.exists():
        return 0, 0, 0
    suites = ET.parse(report).getroot().iter("testsuite")  # noqa: S314 - written by the pytest just run
    total = failed = skipped = 0
    for suite in suites:
        total += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0))
    return total - failed - skipped, failed, skipped


def _summary(outcomes: list[Outcome], seconds: float) -> None:
    print(f"\n{'layer':<12}{'passed':>8}{'failed':>8}{'skipped':>9}{'unsteady':>10}{'time':>9}")
    for one in outcomes:
        mark = "" if one.good else "   <- look above"
        counts = f"{one.passed:>8}{one.failed:>8}{one.skipped:>9}{one.unsteady:>10}"
        print(f"{one.layer:<12}{counts}{one.seconds:>7.0f} s{mark}")
    passed = sum(one.passed for one in outcomes)
    # A layer that died without a failed test still counts as one failure.
    failed = sum(one.failed or int(not one.good) for one in outcomes)
    skipped = sum(one.skipped for one in outcomes)
    print(f"{'in all':<47}{seconds:>7.0f} s")
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped")


if __name__ == "__main__":
    sys.exit(main())
