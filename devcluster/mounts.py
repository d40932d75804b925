"""Mounts below the cluster's folder."""

from __future__ import annotations

from pathlib import Path

from devcluster.commands import run, succeeds
from devcluster.errors import ClusterError

#: The field of a line of /proc/self/mountinfo that names the mount point.
MOUNT_POINT = 4


def points_of(mountinfo: str) -> list[Path]:
    """Read the mount points from /proc/self/mountinfo, in the order of mounting."""
    fields = [line.split()[MOUNT_POINT] for line in mountinfo.splitlines()]
    return [Path(_unescape(field)) for field in fields]


def below(directory: Path) -> list[Path]:
    """Return the mount points in a folder, the folder itself included."""
    points = points_of(Path("/proc/self/mountinfo").read_text())
    return [point for point in points if point.is_relative_to(directory)]


def share(directory: Path) -> None:
    """Make a folder a shared mount, so that plugins in Pods can mount below it."""
    directory.mkdir(parents=True, exist_ok=True)
    if directory not in below(directory):
        run("mount", "--bind", directory, directory)
    run("mount", "--make-rshared", directory)


def unmount_below(directory: Path) -> bool:
    """Unmount everything in a folder, the last mounted first; tell whether there was anything."""
    found = below(directory)
    for point in reversed(found):
        succeeds("umount", "--lazy", point)
    return bool(found)


def require_none_below(directory: Path) -> None:
    """Raise before a folder is removed with something mounted in it: its content would go with it."""
    found = below(directory)
    if found:
        raise ClusterError(
            f"still mounted, so {directory} stays: {', '.join(map(str, found))}; unmount and run `down` again"
        )


def _unescape(field: str) -> str:
    """The kernel writes space, tab, newline and backslash as octal numbers."""
    for octal in ("040", "011", "012", "134"):
        field = field.replace(f"\\{octal}", chr(int(octal, 8)))
    return field
