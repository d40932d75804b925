"""The installed module by the clock: upload to Ready, deletion in each phase, memory of its processes.

``python tests/bench/platform_bench.py [--rounds 3]`` needs root and the cluster of devcluster, which it
starts when it does not run. Each figure is the median of its rounds; targets of the project stand beside
them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from devcluster import cluster, settings
from devcluster.progress import Progress
from devcluster.settings import default_directory
from tests.kit import journey
from tests.kit.cluster import Platform
from tests.kit.controlplane import fresh_namespace
from tests.kit.journey import aictl_upload, order, until
from tests.kit.models import checkpoint, gguf_bytes, tar
from tools import installation
from tools.demo import gemma

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

MIB = 1 << 20
MEMORY_TARGET = 100


@dataclass
class Row:
    """A figure with its rounds, all in one unit."""

    name: str
    unit: str
    target: float
    rounds: list[float] = field(default_factory=list)

    def line(self) -> str:
        """Say median, extremes and target."""
        low, middle, high = min(self.rounds), statistics.median(self.rounds), max(self.rounds)
        spread = f"{low:8.1f} .. {high:.1f}"
        return f"{self.name:44} {middle:8.1f} {self.unit:4} {spread:20} target {self.target:g}"


def main() -> int:
    """Print the table; return 1 when a median is over its target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    progress = Progress()
    was_there = settings.load(default_directory()) is not None
    target = installation.own_cluster(progress)
    try:
        image = installation.provide_image(target, "ai-models", progress)
        with progress.step("module installed"):
            installation.install_chart(target, image)
        rows = _measure(Platform(target, image, ""), rounds, gemma.fetch())
    finally:
        if not was_there:
            cluster.down(default_directory(), progress)
    for row in rows:
        print(row.line())
    return int(any(statistics.median(row.rounds) > row.target for row in rows))


def _measure(platform: Platform, rounds: int, real: Path) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        tiny, large = Path(folder) / "tiny.gguf", Path(folder) / "large.tar"
        tiny.write_bytes(gguf_bytes())
        large.write_bytes(tar(checkpoint(shards=3, size=150 * MIB)))
        rows = [
            Row("upload's start to Ready, tiny GGUF", "s", 8),
            Row("upload's start to Ready, 253 MB GGUF", "s", 20),
            Row("deletion while waiting", "s", 10),
            Row("deletion while uploading", "s", 10),
            Row("deletion while publishing", "s", 10),
            Row("deletion when Ready", "s", 10),
        ]
        for number in range(rounds):
            with fresh_namespace(platform.target.kubeconfig) as namespace:
                uploads = [_uploaded(platform, namespace, f"m{number}", file) for file in (tiny, real)]
                deletions = [
                    _deleted(platform, namespace, f"d{number}", large, when)
                    for when in (None, _uploading, _publishing)
                ]
                deletions.append(_ready_deleted(platform, namespace, tiny))
            for row, seconds in zip(rows, [*uploads, *deletions], strict=True):
                row.rounds.append(seconds)
    return rows + _memory()


def _uploaded(platform: Platform, namespace: str, name: str, file: Path) -> float:
    """Return the seconds from the client's start to its end, which comes with Ready."""
    model = _name(name, file)
    order(platform, namespace, model)
    return _timed(lambda: _finish(aictl_upload(platform, namespace, model, file)))


def _name(name: str, file: Path) -> str:
    return f"{name}-{file.stem}"[:40].rstrip("-.").lower().replace("_", "-")


def _deleted(
    platform: Platform,
    namespace: str,
    name: str,
    file: Path,
    when: Callable[[Platform, str, str], bool] | None,
) -> float:
    """Return the seconds that a deletion takes while something happens to the model."""
    model = f"{name}-{when.__name__.strip('_') if when else 'waiting'}"
    order(platform, namespace, model)
    if when is None:
        return _timed(lambda: _delete(platform, namespace, model))
    upload = aictl_upload(platform, namespace, model, file)
    until(lambda: when(platform, namespace, model), 60, f"{model} at work")
    seconds = _timed(lambda: _delete(platform, namespace, model))
    upload.communicate(timeout=60)
    return seconds


def _ready_deleted(platform: Platform, namespace: str, file: Path) -> float:
    _uploaded(platform, namespace, "ready", file)
    return _timed(lambda: _delete(platform, namespace, _name("ready", file)))


def _uploading(platform: Platform, namespace: str, model: str) -> bool:
    status = platform.target.get("-n", namespace, "model", model)["status"]
    return status["phase"] == "WaitForUpload" and bool(status.get("transfer", {}).get("bytes"))


def _publishing(platform: Platform, namespace: str, model: str) -> bool:
    return _phase(platform, namespace, model) == "Publishing"


def _phase(platform: Platform, namespace: str, model: str) -> str:
    return str(platform.target.get("-n", namespace, "model", model)["status"]["phase"])


def _delete(platform: Platform, namespace: str, model: str) -> None:
    platform.target.kubectl("-n", namespace, "delete", "model", model, "--timeout=60s")


def _finish(upload: subprocess.Popen[str]) -> None:
    told, _ = upload.communicate(timeout=240)
    if upload.returncode:
        raise AssertionError(told)


def _timed(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _memory() -> list[Row]:
    """Return the resident memory of the processes that a cluster pays for all the time."""
    return [
        Row(f"memory of {name.rpartition('.')[2]}", "MB", MEMORY_TARGET, [_resident(pid)])
        for name in ("aimodels.processes.controller", "aimodels.processes.api")
        for pid in journey.processes("-m", name)
    ]


def _resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024 / 1e6


if __name__ == "__main__":
    sys.exit(main())
