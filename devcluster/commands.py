"""Runs the machine's commands."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from devcluster.errors import ClusterError

if TYPE_CHECKING:
    from pathlib import Path


#: Where Debian keeps what only root uses, which is not on everybody's PATH.
SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"


def which(command: str) -> str | None:
    """Return where a command lies, those that only root uses included."""
    return shutil.which(command, path=_path())


def run(*command: str | Path, stdin: str | None = None) -> str:
    """Run a command and return what it printed; raise with its words if it fails."""
    words = list(map(str, command))
    result = _start(words, stdin)
    if result.returncode:
        raise ClusterError(f"`{' '.join(words)}` failed: {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout


def succeeds(*command: str | Path) -> bool:
    """Tell whether the command succeeds; for what may be there or not."""
    return not _start(list(map(str, command))).returncode


def _start(words: list[str], stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": _path()}
    return subprocess.run(words, input=stdin, capture_output=True, text=True, check=False, env=environment)


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_FOLDERS}"
