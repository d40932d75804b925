"""How much memory this process may use."""

from __future__ import annotations

from pathlib import Path

_LIMIT_FILES = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def limit() -> int | None:
    """Return the container's limit in bytes, page cache included; None when there is none."""
    for path in _LIMIT_FILES:
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            return int(text)
    return None
