"""Runs the test layers one after another and prints one summary; leaves nothing running behind.

A layer is a pytest process of its own, so that a crash of one cannot hide the others. The closing line
counts every test of every layer. Tests that fail are run once more, alone: what passes then is counted and
listed as unsteady, which is a defect to be found, though not a reason to doubt the product.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Layer:
    """What pytest gets: paths, and how many processes share the files of a layer."""

    paths: tuple[str, ...]
    processes: int = 1


#: Tests that look at the machine itself, or share its one cluster, run alone.
LAYERS = {
    "unit": Layer(("tests/unit",), 2),
    "contract": Layer(("tests/contract",), 2),
    "component": Layer(("tests/component", "--ignore=tests/component/devcluster"), 3),
    "charts": Layer(("tests/charts",), 2),
    "machine": Layer(("tests/component/devcluster",)),
    "e2e": Layer(("tests/e2e",)),
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


def main() -> int:
    """Run the layers named on the command line, or all; return 1 when one is not good."""
    wanted = sys.argv[1:] or list(LAYERS)
    unknown = [name for name in wanted if name not in LAYERS]
    if unknown:
        print(f"run_tests: unknown layer {unknown[0]!r}; there are: {', '.join(LAYERS)}", file=sys.stderr)
        return 2
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="ai-modules-tests-") as reports:
        for layer in wanted:
            print(f"\n=== {layer} " + "=" * (70 - len(layer)), flush=True)
            outcomes.append(_run(layer, Path(reports) / f"{layer}.xml"))
    _summary(outcomes)
    return 0 if all(one.good for one in outcomes) else 1


def _run(layer: str, report: Path) -> Outcome:
    started = time.monotonic()
    chosen = LAYERS[layer]
    shared = ("-n", str(chosen.processes), "--dist", "loadfile") if chosen.processes > 1 else ()
    status = _pytest(*chosen.paths, *shared, report=report)
    passed, failed, skipped = _counts(report)
    unsteady = 0
    if failed:
        print(f"--- {layer}: what failed, once more and alone", flush=True)
        again = report.with_suffix(".again.xml")
        status = _pytest(*chosen.paths, "--last-failed", "--last-failed-no-failures=none", report=again)
        unsteady, failed, _ = _counts(again)
    seconds = time.monotonic() - started
    return Outcome(layer, passed + unsteady, failed, skipped, seconds, status, unsteady)


def _pytest(*arguments: str, report: Path) -> int:
    command = [sys.executable, "-m", "pytest", "-q", *arguments, f"--junitxml={report}"]
    return subprocess.run(command, cwd=ROOT, env=os.environ, check=False).returncode


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


def _summary(outcomes: list[Outcome]) -> None:
    print(f"\n{'layer':<12}{'passed':>8}{'failed':>8}{'skipped':>9}{'unsteady':>10}{'time':>9}")
    for one in outcomes:
        mark = "" if one.good else "   <- look above"
        counts = f"{one.passed:>8}{one.failed:>8}{one.skipped:>9}{one.unsteady:>10}"
        print(f"{one.layer:<12}{counts}{one.seconds:>7.0f} s{mark}")
    passed = sum(one.passed for one in outcomes)
    # A layer that died without a failed test still counts as one failure.
    failed = sum(one.failed or int(not one.good) for one in outcomes)
    skipped = sum(one.skipped for one in outcomes)
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped")


if __name__ == "__main__":
    sys.exit(main())
