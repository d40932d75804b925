"""The control group in which the node's Pods run."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
#: All Pods together count as one process otherwise, beside each of the machine's others.
WEIGHTS = {"cpu.shares": "4096", "cpu.weight": "400"}


def create(name: str) -> None:
    """Make the group in every hierarchy."""
    for hierarchy in _hierarchies():
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (hierarchy / setting).exists() and hierarchy != ROOT:
                (group / setting).write_text((hierarchy / setting).read_text())
        for setting, weight in WEIGHTS.items():
            if (group / setting).exists():
                (group / setting).write_text(weight)


def processes(name: str) -> set[int]:
    """Return the processes in the group and below."""
    pids: set[int] = set()
    for hierarchy in _hierarchies():
        for file in (hierarchy / name).rglob("cgroup.procs"):
            with contextlib.suppress(OSError):  # a group may go while it is looked at
                pids.update(map(int, file.read_text().split()))
    return pids


def remove(name: str) -> bool:
    """Remove the group with all below it, once no process is in it; tell whether there was one."""
    found = False
    for hierarchy in _hierarchies():
        for directory, _, _ in os.walk(hierarchy / name, topdown=False):
            Path(directory).rmdir()
            found = True
    return found


def _hierarchies() -> list[Path]:
    """Return the one root of cgroup v2, or the root of each v1 hierarchy and of its v2 companion."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    roots = [path for path in ROOT.iterdir() if (path / "cgroup.procs").exists()]
    return [root for root in roots if not root.is_symlink()]
