"""Runs the machine's commands."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from devcluster.errors import ClusterError

if TYPE_CHECKING:
    from pathlib import Path


def run(*command: str | Path, stdin: str | None = None) -> str:
    """Run a command and return what it printed; raise with its words if it fails."""
    words = list(map(str, command))
    result = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)
    if result.returncode:
        raise ClusterError(f"`{' '.join(words)}` failed: {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout


def succeeds(*command: str | Path) -> bool:
    """Tell whether the command succeeds; for what may be there or not."""
    return not subprocess.run(list(map(str, command)), capture_output=True, check=False).returncode
